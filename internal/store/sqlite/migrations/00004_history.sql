-- +goose Up

-- Ranges of a partition's log whose rows lie in objects, by their last position.
CREATE TABLE archives (
  partition       TEXT NOT NULL,
  position        INTEGER NOT NULL,
  first           INTEGER NOT NULL,
  before          TEXT NOT NULL,
  digest          TEXT NOT NULL,
  epoch           INTEGER NOT NULL,
  oldest          INTEGER NOT NULL,
  newest          INTEGER NOT NULL,
  at              INTEGER NOT NULL,
  PRIMARY KEY (partition, position)
) STRICT, WITHOUT ROWID;

-- The objects of a range: the rows of one tenant each, and those without a tenant the marks.
CREATE TABLE archive_objects (
  partition       TEXT NOT NULL,
  position        INTEGER NOT NULL,
  tenant          TEXT NOT NULL,
  object          TEXT NOT NULL,
  digest          TEXT NOT NULL,
  bytes           INTEGER NOT NULL,
  rows            INTEGER NOT NULL,
  raw             INTEGER NOT NULL,
  PRIMARY KEY (partition, position, tenant)
) STRICT, WITHOUT ROWID;

-- Which ranges a stream has rows in.
CREATE TABLE archived_streams (
  tenant          TEXT NOT NULL,
  stream          TEXT NOT NULL,
  position        INTEGER NOT NULL,
  partition       TEXT NOT NULL,
  PRIMARY KEY (tenant, stream, position)
) STRICT, WITHOUT ROWID;

-- Few of many runs: lists of what failed, and of what a branch had.
CREATE INDEX runs_unsuccessful ON runs (tenant, run) WHERE outcome <> '' AND outcome <> 'success';
CREATE INDEX runs_unsuccessful_of ON runs (tenant, repository, run) WHERE outcome <> '' AND outcome <> 'success';
CREATE INDEX runs_by_ref ON runs (tenant, ref, run);
