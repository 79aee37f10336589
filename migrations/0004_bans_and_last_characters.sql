CREATE TABLE `key_bans` (
	`key_id` text NOT NULL,
	`began_at` integer NOT NULL,
	`ends_at` integer NOT NULL,
	`number` integer NOT NULL,
	`lifted_at` integer,
	PRIMARY KEY(`key_id`, `began_at`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
ALTER TABLE `api_keys` ADD `last_four` text CONSTRAINT "last_four_is_no_more_of_the_key" CHECK(length("last_four") = 4);
