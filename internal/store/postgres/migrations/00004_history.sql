-- +goose Up

-- Ranges of a partition's log whose rows lie in objects, by their last position.
CREATE TABLE archives (
  partition       TEXT COLLATE "C" NOT NULL,
  position        BIGINT NOT NULL,
  first           BIGINT NOT NULL,
  before          TEXT COLLATE "C" NOT NULL,
  digest          TEXT COLLATE "C" NOT NULL,
  epoch           BIGINT NOT NULL,
  oldest          BIGINT NOT NULL,
  newest          BIGINT NOT NULL,
  at              BIGINT NOT NULL,
  PRIMARY KEY (partition, position)
);

-- The objects of a range: the rows of one tenant each, and those without a tenant the marks.
CREATE TABLE archive_objects (
  partition       TEXT COLLATE "C" NOT NULL,
  position        BIGINT NOT NULL,
  tenant          TEXT COLLATE "C" NOT NULL,
  object          TEXT COLLATE "C" NOT NULL,
  digest          TEXT COLLATE "C" NOT NULL,
  bytes           BIGINT NOT NULL,
  rows            BIGINT NOT NULL,
  raw             BIGINT NOT NULL,
  PRIMARY KEY (partition, position, tenant)
);

-- Which ranges a stream has rows in.
CREATE TABLE archived_streams (
  tenant          TEXT COLLATE "C" NOT NULL,
  stream          TEXT COLLATE "C" NOT NULL,
  position        BIGINT NOT NULL,
  partition       TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (tenant, stream, position)
);

-- Few of many runs: lists of what failed, and of what a branch had.
CREATE INDEX runs_unsuccessful ON runs (tenant, run) WHERE outcome <> '' AND outcome <> 'success';
CREATE INDEX runs_unsuccessful_of ON runs (tenant, repository, run) WHERE outcome <> '' AND outcome <> 'success';
CREATE INDEX runs_by_ref ON runs (tenant, ref, run);
