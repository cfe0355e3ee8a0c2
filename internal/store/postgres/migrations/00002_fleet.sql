-- +goose Up

-- The servers of a fleet. Every server renews its own row a few times a ttl.
CREATE TABLE members (
  name            TEXT COLLATE "C" NOT NULL,
  session         TEXT COLLATE "C" NOT NULL,
  address         TEXT COLLATE "C" NOT NULL,
  version         TEXT COLLATE "C" NOT NULL,
  format          BIGINT NOT NULL,
  draining        BOOLEAN NOT NULL,
  until           BIGINT NOT NULL,
  PRIMARY KEY (name)
) WITH (fillfactor = 50);

-- One row: what is fixed at first use, and the event format that may be written.
CREATE TABLE fleet (
  one             BIGINT NOT NULL,
  partitions      BIGINT NOT NULL,
  spread          TEXT COLLATE "C" NOT NULL,
  format          BIGINT NOT NULL,
  PRIMARY KEY (one)
);
