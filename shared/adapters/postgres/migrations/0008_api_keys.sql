-- Named API keys: who may come in besides the operator. Of a secret nothing is kept but its SHA-256; it has 256 random
-- bits, so that neither salt nor slowness would protect it any better.

create table api_keys (
  id           uuid primary key,
  name         text not null check (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$' and name <> 'default'),
  scopes       text[] not null check (cardinality(scopes) > 0 and scopes <@ array['chat', 'read', 'admin']),
  hash         bytea not null unique check (octet_length(hash) = 32),
  created_at   timestamptz not null default now(),
  last_used_at timestamptz,
  revoked_at   timestamptz
);
create unique index api_keys_good on api_keys (name) where revoked_at is null;
create index api_keys_name on api_keys (name, created_at);
comment on table api_keys is 'Named API keys. A row is never deleted: its name owns conversations, also after it was revoked.';
comment on column api_keys.last_used_at is 'To within a few minutes.';

-- Makes a key, and says what became of it: made; taken (the name has a good key), revoked (it had one once), unknown (it
-- never had one, so there is nothing to follow). With p_rotate the new key follows the ones before, which are good no
-- more, and without scopes of its own has those of the last. Called twice it is made once.
create function lucyd_make_key(p_id uuid, p_name text, p_scopes text[], p_hash bytea, p_rotate boolean)
returns text language plpgsql as $$
declare
  v_last api_keys;
begin
  lock table api_keys in share row exclusive mode;  -- one maker at a time; they are rare
  if exists (select 1 from api_keys where id = p_id) then
    return 'made';
  end if;
  select * into v_last from api_keys where name = p_name
    order by revoked_at is null desc, revoked_at desc, id desc limit 1;
  if found <> p_rotate then
    return case when p_rotate then 'unknown' when v_last.revoked_at is null then 'taken' else 'revoked' end;
  end if;
  update api_keys set revoked_at = now() where name = p_name and revoked_at is null;
  insert into api_keys (id, name, scopes, hash)
    values (p_id, p_name, case when cardinality(p_scopes) > 0 then p_scopes else v_last.scopes end, p_hash);
  return 'made';
end $$;
