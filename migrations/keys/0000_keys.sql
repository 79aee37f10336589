-- The API keys, with the SHA-256 of each secret in lower-case hexadecimal (docs/api.md, Authentication).
-- `last_four` are the last characters of the secret. All times are Unix milliseconds.
CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`hash` text NOT NULL,
	`name` text NOT NULL,
	`plan` text NOT NULL,
	`per_minute` integer,
	`per_day` integer,
	`created_at` integer NOT NULL,
	`expires_at` integer,
	`revoked_at` integer,
	`revision` integer DEFAULT 0 NOT NULL,
	`resets` integer DEFAULT 0 NOT NULL,
	`last_four` text,
	`location_hint` text,
	CONSTRAINT "last_four_is_no_more_of_the_key" CHECK(length("api_keys"."last_four") = 4),
	CONSTRAINT "plan_is_known" CHECK("api_keys"."plan" IN ('free', 'pro', 'business', 'enterprise')),
	CONSTRAINT "enterprise_has_its_own_limits" CHECK(("api_keys"."plan" = 'enterprise') = ("api_keys"."per_minute" IS NOT NULL) AND ("api_keys"."plan" = 'enterprise') = ("api_keys"."per_day" IS NOT NULL)),
	CONSTRAINT "limits_are_positive" CHECK("api_keys"."per_minute" > 0 AND "api_keys"."per_day" > 0)
) STRICT;
CREATE UNIQUE INDEX `api_keys_hash_unique` ON `api_keys` (`hash`);-- The former hashes of rotated keys. A former secret stays valid for a while after the rotation.
CREATE TABLE `former_key_hashes` (
	`hash` text PRIMARY KEY NOT NULL,
	`key_id` text NOT NULL,
	`ends_at` integer NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX `former_key_hashes_key_id` ON `former_key_hashes` (`key_id`);-- The bans of keys. A limiter inserts a row when a ban begins. `number` counts consecutive bans.
CREATE TABLE `key_bans` (
	`key_id` text NOT NULL,
	`began_at` integer NOT NULL,
	`ends_at` integer NOT NULL,
	`number` integer NOT NULL,
	`lifted_at` integer,
	PRIMARY KEY(`key_id`, `began_at`)
) STRICT, WITHOUT ROWID;
-- The audit trail of the keys. Triggers prevent changing or deleting rows.
CREATE TABLE `key_changes` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`at` integer NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`key_id` text NOT NULL,
	`details` text NOT NULL
) STRICT;
CREATE INDEX `key_changes_key_id` ON `key_changes` (`key_id`);-- The usage of each key on each day in UTC, as the key's limiter last reported it.
CREATE TABLE `key_usage` (
	`key_id` text NOT NULL,
	`day` text NOT NULL,
	`admitted` integer NOT NULL,
	`refused` integer NOT NULL,
	`strikes` integer NOT NULL,
	`bans` integer NOT NULL,
	`peak_minute` integer NOT NULL,
	`peak_day` integer NOT NULL,
	`per_minute` integer NOT NULL,
	`per_day` integer NOT NULL,
	`reported_at` integer NOT NULL,
	PRIMARY KEY(`day`, `key_id`)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER `key_changes_are_not_rewritten` BEFORE UPDATE ON `key_changes`
BEGIN SELECT RAISE(ABORT, 'the record of a change is never rewritten'); END;
CREATE TRIGGER `key_changes_are_kept` BEFORE DELETE ON `key_changes`
BEGIN SELECT RAISE(ABORT, 'the record of a change is never deleted'); END;
-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger.
CREATE TRIGGER `key_changes_are_not_replaced` BEFORE INSERT ON `key_changes`
WHEN EXISTS (SELECT 1 FROM key_changes WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the record of a change is never rewritten'); END;
