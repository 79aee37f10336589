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
	CONSTRAINT "plan_is_known" CHECK("api_keys"."plan" IN ('free', 'pro', 'business', 'enterprise')),
	CONSTRAINT "enterprise_has_its_own_limits" CHECK(("api_keys"."plan" = 'enterprise') = ("api_keys"."per_minute" IS NOT NULL) AND ("api_keys"."plan" = 'enterprise') = ("api_keys"."per_day" IS NOT NULL)),
	CONSTRAINT "limits_are_positive" CHECK("api_keys"."per_minute" > 0 AND "api_keys"."per_day" > 0)
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_hash_unique` ON `api_keys` (`hash`);--> statement-breakpoint
CREATE TABLE `order_import_chunks` (
	`id` integer PRIMARY KEY NOT NULL,
	`import_id` text NOT NULL,
	`created_at` integer NOT NULL,
	`lines` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE TABLE `order_list` (
	`id` integer PRIMARY KEY NOT NULL,
	`version` text NOT NULL,
	CONSTRAINT "order_list_is_one_row" CHECK("order_list"."id" = 1)
) STRICT;
--> statement-breakpoint
CREATE TABLE `orders` (
	`id` integer PRIMARY KEY NOT NULL,
	`pet_id` integer,
	`quantity` integer,
	`ship_date` text,
	`complete` integer,
	`status` text DEFAULT 'pending' NOT NULL,
	`cancelled_at` integer,
	CONSTRAINT "ship_date_is_utc_milliseconds" CHECK("orders"."ship_date" IS strftime('%Y-%m-%dT%H:%M:%fZ', "orders"."ship_date", '+0 seconds')),
	CONSTRAINT "complete_is_boolean" CHECK("orders"."complete" IN (0, 1)),
	CONSTRAINT "status_is_known" CHECK("orders"."status" IN ('pending', 'shipped', 'cancelled')),
	CONSTRAINT "cancelled_orders_have_a_time" CHECK(("orders"."status" = 'cancelled') = ("orders"."cancelled_at" IS NOT NULL))
) STRICT;
