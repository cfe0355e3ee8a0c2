-- +goose Up

-- Acknowledged history that is gone, and who decided to go on without it. Only ever added to.
CREATE TABLE losses (
  partition       TEXT NOT NULL,
  epoch           INTEGER NOT NULL,
  kind            TEXT NOT NULL,
  through         INTEGER NOT NULL,
  held            INTEGER NOT NULL,
  digest          TEXT NOT NULL,
  actor           TEXT NOT NULL,
  note            TEXT NOT NULL,
  at              INTEGER NOT NULL,
  PRIMARY KEY (partition, epoch, kind)
) STRICT, WITHOUT ROWID;
