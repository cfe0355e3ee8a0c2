-- +goose Up

-- The row that fences: every append updates it first, and Acquire raises its epoch.
CREATE TABLE partitions (
  partition       TEXT COLLATE "C" NOT NULL,
  epoch           BIGINT NOT NULL,
  position        BIGINT NOT NULL,
  digest          TEXT COLLATE "C" NOT NULL,
  owner           TEXT COLLATE "C" NOT NULL,
  acquired        BIGINT NOT NULL,
  PRIMARY KEY (partition)
) WITH (fillfactor = 50);

-- One row a batch, at the position of its last log row: the digest chain and who appended it.
CREATE TABLE batches (
  partition       TEXT COLLATE "C" NOT NULL,
  position        BIGINT NOT NULL,
  epoch           BIGINT NOT NULL,
  digest          TEXT COLLATE "C" NOT NULL,
  at              BIGINT NOT NULL,
  PRIMARY KEY (partition, position)
);

-- The events: one row is all events of one stream in one batch.
CREATE TABLE log (
  partition       TEXT COLLATE "C" NOT NULL,
  position        BIGINT NOT NULL,
  tenant          TEXT COLLATE "C" NOT NULL,
  stream          TEXT COLLATE "C" NOT NULL,
  version         BIGINT NOT NULL,
  count           BIGINT NOT NULL,
  at              BIGINT NOT NULL,
  events          BYTEA NOT NULL,
  PRIMARY KEY (partition, position)
);
CREATE UNIQUE INDEX log_by_stream ON log (tenant, stream, version);

-- The present place of every stream.
CREATE TABLE streams (
  tenant          TEXT COLLATE "C" NOT NULL,
  stream          TEXT COLLATE "C" NOT NULL,
  partition       TEXT COLLATE "C" NOT NULL,
  version         BIGINT NOT NULL,
  live            BOOLEAN NOT NULL,
  next_wake       BIGINT NOT NULL,
  PRIMARY KEY (tenant, stream)
) WITH (fillfactor = 50);
CREATE INDEX streams_live ON streams (partition, tenant, stream) WHERE live = TRUE;

-- Derived: may be emptied at any time.
CREATE TABLE checkpoints (
  tenant          TEXT COLLATE "C" NOT NULL,
  stream          TEXT COLLATE "C" NOT NULL,
  version         BIGINT NOT NULL,
  encoding        BIGINT NOT NULL,
  state           BYTEA NOT NULL,
  PRIMARY KEY (tenant, stream)
);

-- What acted once and must not act again; an expired key has lost its reply, not its memory.
CREATE TABLE keys (
  tenant          TEXT COLLATE "C" NOT NULL,
  scope           TEXT COLLATE "C" NOT NULL,
  key             TEXT COLLATE "C" NOT NULL,
  body            TEXT COLLATE "C" NOT NULL,
  reply           BYTEA NOT NULL,
  stream          TEXT COLLATE "C" NOT NULL,
  at              BIGINT NOT NULL,
  expired         BOOLEAN NOT NULL,
  PRIMARY KEY (tenant, scope, key)
);
CREATE INDEX keys_to_expire ON keys (at)
  WHERE expired = FALSE AND scope >= 'client/' AND scope < 'client0';

-- Numbers that only grow.
CREATE TABLE counters (
  tenant          TEXT COLLATE "C" NOT NULL,
  name            TEXT COLLATE "C" NOT NULL,
  value           BIGINT NOT NULL,
  PRIMARY KEY (tenant, name)
);

-- How far each reactor has come.
CREATE TABLE cursors (
  partition       TEXT COLLATE "C" NOT NULL,
  reactor         TEXT COLLATE "C" NOT NULL,
  position        BIGINT NOT NULL,
  PRIMARY KEY (partition, reactor)
) WITH (fillfactor = 50);

-- List rows: derived, committed with the events they come from.
CREATE TABLE runs (
  tenant          TEXT COLLATE "C" NOT NULL,
  run             TEXT COLLATE "C" NOT NULL,
  partition       TEXT COLLATE "C" NOT NULL,
  number          BIGINT NOT NULL,
  repository      TEXT COLLATE "C" NOT NULL,
  repository_name TEXT COLLATE "C" NOT NULL,
  workflow        TEXT COLLATE "C" NOT NULL,
  workflow_name   TEXT COLLATE "C" NOT NULL,
  event           TEXT COLLATE "C" NOT NULL,
  ref             TEXT COLLATE "C" NOT NULL,
  commit_id       TEXT COLLATE "C" NOT NULL,
  title           TEXT COLLATE "C" NOT NULL,
  actor           TEXT COLLATE "C" NOT NULL,
  state           TEXT COLLATE "C" NOT NULL,
  desired         TEXT COLLATE "C" NOT NULL,
  outcome         TEXT COLLATE "C" NOT NULL,
  round           BIGINT NOT NULL,
  created         BIGINT NOT NULL,
  concluded       BIGINT NOT NULL,
  PRIMARY KEY (tenant, run)
);
CREATE INDEX runs_by_repository ON runs (tenant, repository, run);
CREATE INDEX runs_open ON runs (tenant, run) WHERE state <> 'concluded';

CREATE TABLE repositories (
  tenant          TEXT COLLATE "C" NOT NULL,
  repository      TEXT COLLATE "C" NOT NULL,
  partition       TEXT COLLATE "C" NOT NULL,
  name            TEXT COLLATE "C" NOT NULL,
  url             TEXT COLLATE "C" NOT NULL,
  default_branch  TEXT COLLATE "C" NOT NULL,
  registered      BIGINT NOT NULL,
  poll            BOOLEAN NOT NULL,
  PRIMARY KEY (tenant, repository)
);
CREATE UNIQUE INDEX repositories_by_name ON repositories (tenant, name);

CREATE TABLE runners (
  tenant          TEXT COLLATE "C" NOT NULL,
  runner          TEXT COLLATE "C" NOT NULL,
  pool            TEXT COLLATE "C" NOT NULL,
  name            TEXT COLLATE "C" NOT NULL,
  labels          TEXT COLLATE "C" NOT NULL,
  capacity        BIGINT NOT NULL,
  isolation       TEXT COLLATE "C" NOT NULL,
  version         TEXT COLLATE "C" NOT NULL,
  registered      BIGINT NOT NULL,
  removed         BIGINT NOT NULL,
  PRIMARY KEY (tenant, runner)
);

-- One row that Ping writes.
CREATE TABLE beat (
  one             BIGINT NOT NULL,
  at              BIGINT NOT NULL,
  PRIMARY KEY (one)
) WITH (fillfactor = 50);
