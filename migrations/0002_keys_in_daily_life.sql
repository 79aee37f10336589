CREATE TABLE `former_key_hashes` (
	`hash` text PRIMARY KEY NOT NULL,
	`key_id` text NOT NULL,
	`ends_at` integer NOT NULL
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `key_changes` (
	`id` integer PRIMARY KEY AUTOINCREMENT NOT NULL,
	`at` integer NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`key_id` text NOT NULL,
	`details` text NOT NULL
) STRICT;
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
