-- The tables of the first storey. Writers: one service or shared module each, named beside the table.

create table settings (              -- written by shared.adapters.postgres.settings
  key        text primary key,
  value      jsonb not null,
  updated_at timestamptz not null default now()
);

create table workers (               -- written by shared.adapters.postgres.fleet
  id          uuid primary key,
  service     text not null,
  host        text not null,
  boot_id     text not null,         -- of the kernel: pids of another boot mean nothing
  pid         integer not null,
  pid_started text not null,         -- tells a process from a later one with the same pid
  version     text not null,
  state       text not null default 'alive' check (state in ('alive', 'draining', 'stopped', 'fenced')),
  beat        bigint not null default 0,
  beat_at     timestamptz not null default now(),
  started_at  timestamptz not null default now(),
  ended_at    timestamptz
) with (fillfactor = 50);

create table conversations (         -- written by the four transactions
  key          text primary key,     -- telegram:<chat>[:<topic>], http:<key>:<sender>, cli, system:<name>
  channel      text not null,
  principal    text not null,        -- what is limited and billed
  contact      text not null,        -- a label for people
  last_ordinal bigint not null default 0,
  owner        uuid references workers (id),
  epoch        bigint not null default 0,
  owned_at     timestamptz,
  created_at   timestamptz not null default now()
) with (fillfactor = 70);
create index conversations_owned on conversations (owner) where owner is not null;

create table sessions (              -- written by the four transactions
  id               uuid primary key,
  conversation     text not null references conversations (key),
  contact          text not null,
  model            text,
  last_ordinal     integer not null default 0,   -- of its last message row
  live_from        integer not null default 1,   -- rows before it were compacted: kept, but no longer read to a model
  summary          text,                         -- what the compacted rows said
  compaction_count integer not null default 0,
  context_tokens   bigint not null default 0,    -- of the last model call
  warned           boolean not null default false,
  compact_above    bigint not null default 0,    -- after a compaction that failed: not again below so many tokens
  pending_warning  text,                         -- goes before the next user message
  created_at       timestamptz not null default now(),
  updated_at       timestamptz not null default now(),
  closed_at        timestamptz
) with (fillfactor = 70);
create unique index sessions_open on sessions (conversation) where closed_at is null;
create index sessions_of on sessions (conversation, created_at);

create table runs (                  -- written by the four transactions
  id           uuid primary key,
  conversation text not null references conversations (key),
  ordinal      bigint not null,
  kind         text not null check (kind in ('message', 'compact', 'reset')),
  state        text not null check (state in
                 ('accepted', 'running', 'waiting', 'done', 'failed', 'cancelled', 'merged', 'dead')),
  source       text not null,        -- telegram, http, cli, system, user
  tier         text not null,
  principal    text not null,
  sender       text not null,
  message      jsonb not null,       -- {text, attachments?, context?, notify_meta?}
  when_busy    text not null default 'queue' check (when_busy in ('queue', 'steer', 'interrupt', 'reject')),
  needs        integer not null default 1,       -- the least version of code that may claim it
  session      uuid references sessions (id),
  epoch        bigint not null default 0,        -- of the last attempt
  attempts     integer not null default 0,
  suspected    integer not null default 0,       -- how often a process died with it in hand
  stage        text not null default 'new' check (stage in ('new', 'model', 'tools')),
  step         integer not null default 0,       -- the next step to be stored
  keep         text not null default '0-1',      -- event id of the last stored step
  last_write   uuid,                             -- so that a write whose COMMIT got lost is not done again
  wait_reason  text,
  wake_at      timestamptz,
  merged_into  uuid,
  outcome      jsonb,
  terminal     text,                 -- event id of the end
  traceparent  text,
  accepted_at  timestamptz not null default now(),
  claimed_at   timestamptz,
  finished_at  timestamptz,
  published_at timestamptz,
  deadline_at  timestamptz not null,
  cancel_asked_at timestamptz,
  unique (conversation, ordinal)
) with (fillfactor = 70);
create index runs_open on runs (conversation, ordinal) where state in ('accepted', 'running', 'waiting');
create index runs_deadline on runs (deadline_at) where state in ('accepted', 'running');
create index runs_unpublished on runs (finished_at) where published_at is null and finished_at is not null;

create table idempotency (           -- written by accept
  scope      text not null,
  key        text not null,
  body_hash  bytea not null,
  run        uuid not null,
  expires_at timestamptz not null,
  primary key (scope, key)
);
create index idempotency_expiry on idempotency (expires_at);

create table messages (              -- written by claim and store
  session    uuid not null references sessions (id),
  ordinal    integer not null,
  run        uuid not null,
  role       text not null check (role in ('user', 'assistant', 'tool_results')),
  body       jsonb not null,         -- shared.domain.chat
  dropped    boolean not null default false,     -- of a run that failed before it had done anything
  created_at timestamptz not null default now(),
  primary key (session, ordinal)
);
create index messages_run on messages (run);

create table effects (               -- written by store; read by whoever takes an interrupted run over
  run         uuid not null references runs (id) on delete cascade,
  step        integer not null,
  call_index  integer not null,
  call_id     text not null,         -- the model's name for it
  tool        text not null,
  class       text not null check (class in ('read', 'local', 'idempotent', 'once')),
  args_hash   bytea not null,
  proof       jsonb,
  state       text not null check (state in ('intended', 'done', 'in_doubt')),
  result      jsonb,
  epoch       bigint not null,
  intended_at timestamptz not null default now(),
  ended_at    timestamptz,
  primary key (run, step, call_index)
);

create table reservations (          -- written under the epoch before each model call
  call_id    uuid primary key,
  worker     uuid not null,          -- who makes the call; if it dies, the call may have been billed all the same
  run        uuid not null,
  epoch      bigint not null,
  conversation text not null,
  session    uuid,
  principal  text not null,
  model      text not null,
  worst_case numeric not null,
  currency   text not null,
  made_at    timestamptz not null default now(),
  settled_at timestamptz
) with (fillfactor = 80);
create index reservations_open on reservations (worker) where settled_at is null;

create table costs (                 -- append-only, by call id, not fenced: a stale call is billed too
  call_id            uuid primary key,
  at                 timestamptz not null default now(),
  run                uuid,
  conversation       text,
  session            uuid,
  principal          text not null,
  call_type          text not null,  -- agentic, compaction
  provider           text not null,
  model              text not null,
  input_tokens       bigint not null,
  output_tokens      bigint not null,
  cache_read_tokens  bigint not null,
  cache_write_tokens bigint not null,
  rate_input         numeric not null,           -- per million tokens, as configured when it was paid
  rate_output        numeric not null,
  rate_cache_read    numeric not null,
  rate_cache_write   numeric not null,
  cost               numeric not null,
  currency           text not null,
  estimated          boolean not null default false,
  latency_ms         integer
);
create index costs_at on costs (at);
create index costs_run on costs (run);
create index costs_session on costs (session);

create table events (                -- append-only audit; never message text
  id           bigint generated always as identity primary key,
  at           timestamptz not null default now(),
  conversation text,
  session      uuid,
  run          uuid,
  type         text not null,
  payload      jsonb not null default '{}'
);
create index events_at on events (at);
create index events_run on events (run);

create table files (                 -- written by services.indexer
  path       text primary key,       -- relative to the workspace
  source     text not null default 'memory',
  hash       text not null,          -- sha-256, hex
  size       bigint not null,
  mtime      timestamptz not null,
  scanned_at timestamptz not null default now()
);

create table consolidation_state (   -- written by services.consolidator
  session              uuid primary key references sessions (id),
  last_compaction_count integer not null default 0,
  last_message_count   integer not null default 0,
  last_consolidated_at timestamptz
);
