-- What the agent remembers: facts, episodes and commitments of each person, and pieces of the workspace's files, found by words.

-- The words of a text in one writing, blanks between them: lower case, without accents, each sign of Chinese and Japanese a
-- word of its own. What is stored and what is asked go through it alike, whatever locale the database was made with.
do $$
declare
  v_collation text := (select collname from pg_collation where collname in ('pg_c_utf8', 'und-x-icu')
                       order by collname limit 1);
begin
  execute format($f$
    create function lucyd_words(p_text text) returns text language sql immutable strict parallel safe as $body$
      select regexp_replace(regexp_replace(replace(normalize(regexp_replace(
          lower(normalize(left(p_text, 100000), NFKD) collate pg_catalog.%I), '[\u0300-\u036f]', '', 'g'), NFKC), 'ß', 'ss'),
        '[\u0001-\u002f\u003a-\u0040\u005b-\u0060\u007b-\u00bf\u2000-\u206f\u3000-\u303f]+', ' ', 'g'),
        '([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])', ' \1 ', 'g')
    $body$ $f$, coalesce(v_collation, 'default'));
end $$;

-- The query for any of a text's words; words that tell nothing (the, and, der, und) count only where there are no others.
-- Null for a text without a word.
create function lucyd_any_of(p_text text) returns tsquery language sql stable parallel safe as $$
  with words as (
    select lexeme, ts_lexize('english_stem', lexeme) <> '{}' and ts_lexize('german_stem', lexeme) <> '{}' as telling
    from unnest(to_tsvector('simple', lucyd_words(left(p_text, 2000))))
  )
  select string_agg(quote_literal(lexeme), ' | ')::tsquery from words
  where telling or not exists (select from words where telling)
$$;

create table persons (               -- written by lucyd_remembered, for the acts of services.agent_worker
  id         text primary key,       -- owner, telegram:<id>, http:<key>:<sender>
  created_at timestamptz not null default now()
);

create table identities (            -- written by lucyd_remembered, for the acts of services.agent_worker
  name    text primary key,          -- as whom somebody came: key:default, telegram:<id>, http:<key>:<sender>
  person  text not null references persons (id) on delete cascade,
  linked  boolean not null default false,        -- somebody has decided whose it is: that wins over the rule
  seen_at timestamptz not null default now()
);
create index identities_of on identities (person);

create table facts (                 -- written by lucyd_act_memory_write and lucyd_act_memory_forget (services.agent_worker)
  id             bigint generated always as identity primary key,
  person         text not null references persons (id) on delete cascade,   -- whose memory it is, and nobody else's
  entity         text not null check (char_length(entity) between 1 and 120),
  attribute      text not null check (char_length(attribute) between 1 and 120),
  value          text not null check (char_length(value) between 1 and 2000),
  confidence     double precision not null default 1 check (confidence between 0 and 1),
  source         text not null default 'agent',  -- agent: written by a tool
  source_session uuid,
  created_at     timestamptz not null default now(),
  updated_at     timestamptz not null default now(),
  accessed_at    timestamptz not null default now(),
  invalidated_at timestamptz,        -- forgotten, or another value took its place
  lexemes        tsvector generated always as
                   (to_tsvector('simple', lucyd_words(entity || ' ' || attribute || ' ' || value))) stored
);
create unique index facts_live on facts (person, entity, attribute) where invalidated_at is null;
create index facts_of on facts (person, entity, attribute) where invalidated_at is not null;

create table episodes (              -- written by lucyd_act_record_episode (services.agent_worker)
  id             bigint generated always as identity primary key,
  person         text not null references persons (id) on delete cascade,
  session        uuid,
  at             timestamptz not null default now(),
  participants   jsonb not null default '[]',
  topics         jsonb not null default '[]',
  decisions      jsonb not null default '[]',
  summary        text not null check (char_length(summary) between 1 and 4000),
  emotional_tone text not null default 'neutral',
  created_at     timestamptz not null default now(),
  lexemes        tsvector generated always as
                   (to_tsvector('simple', lucyd_words(summary || ' ' || topics::text || ' ' || decisions::text))) stored
);
create index episodes_of on episodes (person, at);

create table commitments (           -- written by lucyd_act_commitment_update (services.agent_worker)
  id         bigint generated always as identity primary key,
  person     text not null references persons (id) on delete cascade,
  episode    bigint references episodes (id) on delete set null,
  who        text not null,
  what       text not null,
  deadline   timestamptz,
  status     text not null default 'open' check (status in ('open', 'done', 'expired', 'cancelled')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index commitments_open on commitments (person, deadline) where status = 'open';
create index commitments_of on commitments (episode);

create table entity_aliases (        -- read by the acts; what a person also calls an entity
  person    text not null references persons (id) on delete cascade,
  alias     text not null,
  canonical text not null,
  primary key (person, alias)
);

create table chunks (                -- written by lucyd_put_file (services.indexer)
  path       text not null references files (path) on delete cascade,
  start_line integer not null,       -- both count from 1, and the last one belongs to it
  end_line   integer not null,
  id         text not null,          -- sha-256 of path:text, hex
  text       text not null,
  source     text not null default 'memory',
  updated_at timestamptz not null default now(),
  lexemes    tsvector generated always as (to_tsvector('simple', lucyd_words(text))) stored,
  primary key (path, start_line)
);
create index chunks_words on chunks using gin (lexemes);
create index chunks_id on chunks (id);

-- How a file's chunks were made; files that were known before there were chunks have none.
alter table files add column chunking text;

-- The person that an identity is: whom it was linked with, else `p_person`, which the rule says.
create function lucyd_person(p_identity text, p_person text) returns text language sql stable as $$
  select coalesce((select person from identities where name = p_identity and linked), p_person)
$$;

-- The same, written down: there is such a person now, and nobody else changes what it remembers until this is committed.
create function lucyd_remembered(p_identity text, p_person text) returns text language plpgsql as $$
declare
  v_person text := lucyd_person(p_identity, p_person);
begin
  insert into persons (id) values (v_person) on conflict do nothing;
  insert into identities as i (name, person) values (p_identity, v_person)
    on conflict (name) do update set person = excluded.person, seen_at = now()
      where not i.linked and (i.person <> excluded.person or i.seen_at < now() - interval '1 day');
  perform from persons where id = v_person for no key update;
  return v_person;
end $$;

-- What a person's entity is called, whatever it was called now.
create function lucyd_entity(p_person text, p_name text) returns text language sql stable as $$
  select coalesce((select canonical from entity_aliases where person = p_person and alias = p_name), p_name)
$$;

-- Keeps a fact: one live value for each attribute of an entity; of earlier values the newest 20 are kept.
create function lucyd_act_memory_write(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  c_most constant integer := 10000;
  v_person text := lucyd_remembered(p_arguments ->> 'identity', p_arguments ->> 'person');
  v_entity text := lucyd_entity(v_person, p_arguments ->> 'entity');
  v_attribute text := p_arguments ->> 'attribute';
  v_value text := p_arguments ->> 'value';
  v_said text := format('%s.%s = %s', v_entity, v_attribute, v_value);
  v_fact facts;
begin
  select * into v_fact from facts
    where person = v_person and entity = v_entity and attribute = v_attribute and invalidated_at is null;
  if v_fact.value = v_value then
    update facts set accessed_at = now() where id = v_fact.id;
    return jsonb_build_object('text', 'Already known: ' || v_said);
  end if;
  if v_fact.id is null then
    if (select count(*) from facts where person = v_person and invalidated_at is null) >= c_most then
      return jsonb_build_object('error', format('there are %s facts already, which is the limit; forget some first', c_most));
    end if;
  else
    update facts set invalidated_at = now(), updated_at = now() where id = v_fact.id;
    delete from facts where id in (
      select id from facts
      where person = v_person and entity = v_entity and attribute = v_attribute and invalidated_at is not null
      order by id desc offset 20);
  end if;
  insert into facts (person, entity, attribute, value, source_session)
    values (v_person, v_entity, v_attribute, v_value, (p_context ->> 'session')::uuid);
  return jsonb_build_object('text', case when v_fact.id is null then 'Stored: ' || v_said
                                         else format('Updated: %s (was: %s)', v_said, v_fact.value) end);
end $$;

-- Lets a fact no longer hold. Its row stays, and is found by nobody.
create function lucyd_act_memory_forget(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_person text := lucyd_person(p_arguments ->> 'identity', p_arguments ->> 'person');
  v_entity text := lucyd_entity(v_person, p_arguments ->> 'entity');
  v_attribute text := p_arguments ->> 'attribute';
begin
  update facts set invalidated_at = now(), updated_at = now()
    where person = v_person and entity = v_entity and attribute = v_attribute and invalidated_at is null;
  return jsonb_build_object('text', format(
    case when found then 'Forgotten: %s.%s' else 'No current fact found for %s.%s' end, v_entity, v_attribute));
end $$;

-- Ends an open commitment of the person who asks.
create function lucyd_act_commitment_update(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  v_id bigint := (p_arguments ->> 'commitment_id')::bigint;
begin
  update commitments set status = p_arguments ->> 'status', updated_at = now()
    where id = v_id and status = 'open'
      and person = lucyd_person(p_arguments ->> 'identity', p_arguments ->> 'person');
  return jsonb_build_object('text', case when found
    then format('Commitment #%s marked as %s', v_id, p_arguments ->> 'status')
    else format('No open commitment found with ID #%s', v_id) end);
end $$;

-- Keeps what a conversation was about; the same words once.
create function lucyd_act_record_episode(p_context jsonb, p_arguments jsonb) returns jsonb language plpgsql as $$
declare
  c_most constant integer := 10000;
  v_person text := lucyd_remembered(p_arguments ->> 'identity', p_arguments ->> 'person');
  v_id bigint;
begin
  select id into v_id from episodes where person = v_person and summary = p_arguments ->> 'summary' limit 1;
  if found then
    return jsonb_build_object('text', format('Already recorded: episode #%s', v_id));
  end if;
  if (select count(*) from episodes where person = v_person) >= c_most then
    return jsonb_build_object('error', format('there are %s episodes already, which is the limit', c_most));
  end if;
  insert into episodes (person, session, participants, topics, decisions, summary, emotional_tone)
    values (v_person, (p_context ->> 'session')::uuid, jsonb_build_array(p_context ->> 'contact'),
            p_arguments -> 'topics', p_arguments -> 'decisions', p_arguments ->> 'summary',
            p_arguments ->> 'emotional_tone')
    returning id into v_id;
  return jsonb_build_object('text', format('Recorded: episode #%s', v_id));
end $$;

-- A file and its chunks as they are now, in place of what was known of it.
create function lucyd_put_file(
  p_path text, p_hash text, p_size bigint, p_mtime timestamptz, p_chunking text,
  p_starts integer[], p_ends integer[], p_ids text[], p_texts text[]
) returns void language sql as $$
  insert into files (path, hash, size, mtime, chunking) values (p_path, p_hash, p_size, p_mtime, p_chunking)
    on conflict (path) do update
      set hash = excluded.hash, size = excluded.size, mtime = excluded.mtime, chunking = excluded.chunking,
          scanned_at = now();
  delete from chunks where path = p_path;
  insert into chunks (path, start_line, end_line, id, text)
    select p_path, * from unnest(p_starts, p_ends, p_ids, p_texts);
$$;
