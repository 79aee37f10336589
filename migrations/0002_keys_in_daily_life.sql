CREATE TABLE `former_key_hashes` (
	`hash` text PRIMARY KEY NOT NULL,
	`key_id` text NOT NULL,
	`ends_at` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `former_key_hashes_key_id` ON `former_key_hashes` (`key_id`);--> statement-breakpoint
CREATE TABLE `key_changes` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`at` integer NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`key_id` text NOT NULL,
	`details` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `key_changes_key_id` ON `key_changes` (`key_id`);--> statement-breakpoint
CREATE TRIGGER `key_changes_are_not_rewritten` BEFORE UPDATE ON `key_changes`
BEGIN SELECT RAISE(ABORT, 'the record of a change is never rewritten'); END;
--> statement-breakpoint
CREATE TRIGGER `key_changes_are_kept` BEFORE DELETE ON `key_changes`
BEGIN SELECT RAISE(ABORT, 'the record of a change is never deleted'); END;
--> statement-breakpoint
-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger.
CREATE TRIGGER `key_changes_are_not_replaced` BEFORE INSERT ON `key_changes`
WHEN EXISTS (SELECT 1 FROM key_changes WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the record of a change is never rewritten'); END;
--> statement-breakpoint
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
