-- The database of API keys. src/schema/keys.ts describes the same tables in TypeScript.
-- All times are Unix milliseconds.

-- The API keys. `hash` is the SHA-256 of the secret in lower-case hexadecimal; `last_four` are the secret's
-- last characters. `revision` grows with every change, `resets` with every `keys reset`.
CREATE TABLE api_keys (
  id TEXT PRIMARY KEY NOT NULL,
  hash TEXT NOT NULL,
  last_four TEXT NOT NULL,
  name TEXT NOT NULL,
  plan TEXT NOT NULL,
  per_minute INTEGER,
  per_day INTEGER,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  revision INTEGER NOT NULL DEFAULT 0,
  resets INTEGER NOT NULL DEFAULT 0,
  location_hint TEXT,
  CONSTRAINT last_four_is_no_more_of_the_key CHECK (length(last_four) = 4),
  CONSTRAINT plan_is_known CHECK (plan IN ('free', 'pro', 'business', 'enterprise')),
  CONSTRAINT enterprise_has_its_own_limits CHECK ((plan = 'enterprise') = (per_minute IS NOT NULL) AND (plan = 'enterprise') = (per_day IS NOT NULL)),
  CONSTRAINT limits_are_positive CHECK (per_minute > 0 AND per_day > 0)
) STRICT;
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);

-- The former hashes of rotated keys. A former secret stays valid until `ends_at`.
CREATE TABLE former_key_hashes (
  hash TEXT PRIMARY KEY NOT NULL,
  key_id TEXT NOT NULL,
  ends_at INTEGER NOT NULL,
  last_four TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX former_key_hashes_key_id ON former_key_hashes (key_id);

-- The bans of keys. A limiter inserts a row when a ban begins. `number` counts consecutive bans.
CREATE TABLE key_bans (
  key_id TEXT NOT NULL,
  began_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  number INTEGER NOT NULL,
  lifted_at INTEGER,
  PRIMARY KEY (key_id, began_at)
) STRICT, WITHOUT ROWID;

-- The usage of each key on each day in UTC, as the key's limiter last reported it.
CREATE TABLE key_usage (
  key_id TEXT NOT NULL,
  day TEXT NOT NULL,
  admitted INTEGER NOT NULL,
  refused INTEGER NOT NULL,
  strikes INTEGER NOT NULL,
  bans INTEGER NOT NULL,
  peak_minute INTEGER NOT NULL,
  peak_day INTEGER NOT NULL,
  per_minute INTEGER NOT NULL,
  per_day INTEGER NOT NULL,
  reported_at INTEGER NOT NULL,
  PRIMARY KEY (day, key_id)
) STRICT, WITHOUT ROWID;

-- The audit trail of the keys. `details` is a JSON object: each changed field with its old and new value.
CREATE TABLE key_changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  key_id TEXT NOT NULL,
  details TEXT NOT NULL
) STRICT;
CREATE INDEX key_changes_key_id ON key_changes (key_id);

CREATE TRIGGER key_changes_are_not_rewritten BEFORE UPDATE ON key_changes
BEGIN SELECT RAISE(ABORT, 'the record of a change is never rewritten'); END;
CREATE TRIGGER key_changes_are_kept BEFORE DELETE ON key_changes
BEGIN SELECT RAISE(ABORT, 'the record of a change is never deleted'); END;
-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger.
CREATE TRIGGER key_changes_are_not_replaced BEFORE INSERT ON key_changes
WHEN EXISTS (SELECT 1 FROM key_changes WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the record of a change is never rewritten'); END;
