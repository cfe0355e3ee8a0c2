-- +goose Up

-- The row that fences: every append updates it first, and Acquire raises its epoch.
CREATE TABLE partitions (
  partition       TEXT NOT NULL,
  epoch           INTEGER NOT NULL,
  position        INTEGER NOT NULL,
  digest          TEXT NOT NULL,
  owner           TEXT NOT NULL,
  acquired        INTEGER NOT NULL,
  PRIMARY KEY (partition)
) STRICT, WITHOUT ROWID;

-- One row a batch, at the position of its last log row: the digest chain and who appended it.
CREATE TABLE batches (
  partition       TEXT NOT NULL,
  position        INTEGER NOT NULL,
  epoch           INTEGER NOT NULL,
  digest          TEXT NOT NULL,
  at              INTEGER NOT NULL,
  PRIMARY KEY (partition, position)
) STRICT, WITHOUT ROWID;

-- The events: one row is all events of one stream in one batch.
CREATE TABLE log (
  partition       TEXT NOT NULL,
  position        INTEGER NOT NULL,
  tenant          TEXT NOT NULL,
  stream          TEXT NOT NULL,
  version         INTEGER NOT NULL,
  count           INTEGER NOT NULL,
  at              INTEGER NOT NULL,
  events          BLOB NOT NULL,
  PRIMARY KEY (partition, position)
) STRICT;
CREATE UNIQUE INDEX log_by_stream ON log (tenant, stream, version);

-- The present place of every stream.
CREATE TABLE streams (
  tenant          TEXT NOT NULL,
  stream          TEXT NOT NULL,
  partition       TEXT NOT NULL,
  version         INTEGER NOT NULL,
  live            INTEGER NOT NULL,
  next_wake       INTEGER NOT NULL,
  PRIMARY KEY (tenant, stream)
) STRICT, WITHOUT ROWID;
CREATE INDEX streams_live ON streams (partition, tenant, stream) WHERE live = TRUE;

-- Derived: may be emptied at any time.
CREATE TABLE checkpoints (
  tenant          TEXT NOT NULL,
  stream          TEXT NOT NULL,
  version         INTEGER NOT NULL,
  encoding        INTEGER NOT NULL,
  state           BLOB NOT NULL,
  PRIMARY KEY (tenant, stream)
) STRICT;

-- What acted once and must not act again; an expired key has lost its reply, not its memory.
CREATE TABLE keys (
  tenant          TEXT NOT NULL,
  scope           TEXT NOT NULL,
  key             TEXT NOT NULL,
  body            TEXT NOT NULL,
  reply           BLOB NOT NULL,
  stream          TEXT NOT NULL,
  at              INTEGER NOT NULL,
  expired         INTEGER NOT NULL,
  PRIMARY KEY (tenant, scope, key)
) STRICT;
CREATE INDEX keys_to_expire ON keys (at)
  WHERE expired = FALSE AND scope >= 'client/' AND scope < 'client0';

-- Numbers that only grow.
CREATE TABLE counters (
  tenant          TEXT NOT NULL,
  name            TEXT NOT NULL,
  value           INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- How far each reactor has come.
CREATE TABLE cursors (
  partition       TEXT NOT NULL,
  reactor         TEXT NOT NULL,
  position        INTEGER NOT NULL,
  PRIMARY KEY (partition, reactor)
) STRICT, WITHOUT ROWID;

-- List rows: derived, committed with the events they come from.
CREATE TABLE runs (
  tenant          TEXT NOT NULL,
  run             TEXT NOT NULL,
  partition       TEXT NOT NULL,
  number          INTEGER NOT NULL,
  repository      TEXT NOT NULL,
  repository_name TEXT NOT NULL,
  workflow        TEXT NOT NULL,
  workflow_name   TEXT NOT NULL,
  event           TEXT NOT NULL,
  ref             TEXT NOT NULL,
  commit_id       TEXT NOT NULL,
  title           TEXT NOT NULL,
  actor           TEXT NOT NULL,
  state           TEXT NOT NULL,
  desired         TEXT NOT NULL,
  outcome         TEXT NOT NULL,
  round           INTEGER NOT NULL,
  created         INTEGER NOT NULL,
  concluded       INTEGER NOT NULL,
  PRIMARY KEY (tenant, run)
) STRICT;
CREATE INDEX runs_by_repository ON runs (tenant, repository, run);
CREATE INDEX runs_open ON runs (tenant, run) WHERE state <> 'concluded';

CREATE TABLE repositories (
  tenant          TEXT NOT NULL,
  repository      TEXT NOT NULL,
  partition       TEXT NOT NULL,
  name            TEXT NOT NULL,
  url             TEXT NOT NULL,
  default_branch  TEXT NOT NULL,
  registered      INTEGER NOT NULL,
  poll            INTEGER NOT NULL,
  PRIMARY KEY (tenant, repository)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX repositories_by_name ON repositories (tenant, name);

CREATE TABLE runners (
  tenant          TEXT NOT NULL,
  runner          TEXT NOT NULL,
  pool            TEXT NOT NULL,
  name            TEXT NOT NULL,
  labels          TEXT NOT NULL,
  capacity        INTEGER NOT NULL,
  isolation       TEXT NOT NULL,
  version         TEXT NOT NULL,
  registered      INTEGER NOT NULL,
  removed         INTEGER NOT NULL,
  PRIMARY KEY (tenant, runner)
) STRICT, WITHOUT ROWID;

-- One row that Ping writes.
CREATE TABLE beat (
  one             INTEGER NOT NULL,
  at              INTEGER NOT NULL,
  PRIMARY KEY (one)
) STRICT, WITHOUT ROWID;
