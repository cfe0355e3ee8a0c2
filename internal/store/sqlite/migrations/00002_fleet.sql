-- +goose Up

-- The servers of a fleet. On this database there is one at most.
CREATE TABLE members (
  name            TEXT NOT NULL,
  session         TEXT NOT NULL,
  address         TEXT NOT NULL,
  version         TEXT NOT NULL,
  format          INTEGER NOT NULL,
  draining        INTEGER NOT NULL,
  until           INTEGER NOT NULL,
  PRIMARY KEY (name)
) STRICT, WITHOUT ROWID;

-- One row: what is fixed at first use, and the event format that may be written.
CREATE TABLE fleet (
  one             INTEGER NOT NULL,
  partitions      INTEGER NOT NULL,
  spread          TEXT NOT NULL,
  format          INTEGER NOT NULL,
  PRIMARY KEY (one)
) STRICT, WITHOUT ROWID;
