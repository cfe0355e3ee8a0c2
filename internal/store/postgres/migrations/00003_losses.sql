-- +goose Up

-- Acknowledged history that is gone, and who decided to go on without it. Only ever added to.
CREATE TABLE losses (
  partition       TEXT COLLATE "C" NOT NULL,
  epoch           BIGINT NOT NULL,
  kind            TEXT COLLATE "C" NOT NULL,
  through         BIGINT NOT NULL,
  held            BIGINT NOT NULL,
  digest          TEXT COLLATE "C" NOT NULL,
  actor           TEXT COLLATE "C" NOT NULL,
  note            TEXT COLLATE "C" NOT NULL,
  at              BIGINT NOT NULL,
  PRIMARY KEY (partition, epoch, kind)
);
