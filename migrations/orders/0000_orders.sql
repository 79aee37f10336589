CREATE TABLE `cancelled_orders` (
	`cancelled_at` integer NOT NULL,
	`id` integer NOT NULL,
	`pet_id` integer,
	`quantity` integer,
	`ship_date` text,
	`complete` integer,
	PRIMARY KEY(`cancelled_at`, `id`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE TABLE `order_bulk_change` (
	`id` integer PRIMARY KEY NOT NULL,
	`changed` integer NOT NULL,
	CONSTRAINT "order_bulk_change_is_one_row" CHECK("order_bulk_change"."id" = 1)
) STRICT;
--> statement-breakpoint
CREATE TABLE `order_import_parts` (
	`import_id` text NOT NULL,
	`part` integer NOT NULL,
	`created_at` integer NOT NULL,
	`lines` text NOT NULL,
	PRIMARY KEY(`import_id`, `part`)
) STRICT;
--> statement-breakpoint
CREATE TABLE `order_list` (
	`id` integer PRIMARY KEY NOT NULL,
	`version` text NOT NULL,
	CONSTRAINT "order_list_is_one_row" CHECK("order_list"."id" = 1)
) STRICT;
--> statement-breakpoint
CREATE TABLE `order_segments` (
	`first_id` integer PRIMARY KEY NOT NULL,
	`version` text NOT NULL,
	`count` integer NOT NULL
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
--> statement-breakpoint
INSERT INTO `order_list` (`id`, `version`) VALUES (1, lower(hex(randomblob(16))));
--> statement-breakpoint
INSERT INTO `order_segments` (`first_id`, `version`, `count`) VALUES (-9223372036854775808, lower(hex(randomblob(16))), 0);
--> statement-breakpoint
-- A shipped order is final, whoever writes to the database (docs/api.md, section Cancelling).
CREATE TRIGGER `shipped_orders_stay_shipped` BEFORE UPDATE ON `orders`
WHEN OLD.status = 'shipped' AND (NEW.status <> 'shipped' OR NEW.id <> OLD.id)
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be turned back'); END;
--> statement-breakpoint
CREATE TRIGGER `shipped_orders_are_not_overwritten` BEFORE UPDATE OF id ON `orders`
WHEN NEW.id <> OLD.id AND EXISTS (SELECT 1 FROM orders WHERE id = NEW.id AND status = 'shipped')
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be overwritten'); END;
--> statement-breakpoint
-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger.
CREATE TRIGGER `shipped_orders_are_not_replaced` BEFORE INSERT ON `orders`
WHEN NEW.status <> 'shipped' AND EXISTS (SELECT 1 FROM orders WHERE id = NEW.id AND status = 'shipped')
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be turned back'); END;
--> statement-breakpoint
CREATE TRIGGER `shipped_orders_are_kept` BEFORE DELETE ON `orders`
WHEN OLD.status = 'shipped'
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be deleted'); END;
--> statement-breakpoint
CREATE TRIGGER `cancelled_orders_are_moved` AFTER UPDATE OF status ON `orders`
WHEN NEW.status = 'cancelled'
BEGIN
  INSERT OR REPLACE INTO cancelled_orders (cancelled_at, id, pet_id, quantity, ship_date, complete)
  VALUES (NEW.cancelled_at, NEW.id, NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete);
  DELETE FROM orders WHERE id = NEW.id;
END;
--> statement-breakpoint
CREATE TRIGGER `orders_inserted_cancelled_are_moved` AFTER INSERT ON `orders`
WHEN NEW.status = 'cancelled'
BEGIN
  INSERT OR REPLACE INTO cancelled_orders (cancelled_at, id, pet_id, quantity, ship_date, complete)
  VALUES (NEW.cancelled_at, NEW.id, NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete);
  DELETE FROM orders WHERE id = NEW.id;
END;
--> statement-breakpoint
-- A cancelled order is not counted, but INSERT OR REPLACE may replace a listed order with it.
CREATE TRIGGER `insert_changes_order_list` AFTER INSERT ON `orders`
WHEN NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))), count = count + (NEW.status <> 'cancelled')
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
  UPDATE order_list SET version = lower(hex(randomblob(16)));
END;
--> statement-breakpoint
-- A cancelled order leaves its segment's count here, so the deletion that moves it changes no count.
CREATE TRIGGER `update_changes_order_list` AFTER UPDATE ON `orders`
WHEN NEW.id = OLD.id
  AND (NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete, NEW.status)
    IS NOT (OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete, OLD.status)
  AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))), count = count - (NEW.status = 'cancelled')
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
  UPDATE order_list SET version = lower(hex(randomblob(16)));
END;
--> statement-breakpoint
-- Not UPDATE OF id, which misses SET rowid.
CREATE TRIGGER `renumbering_changes_order_list` AFTER UPDATE ON `orders`
WHEN NEW.id <> OLD.id AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  UPDATE order_segments SET version = lower(hex(randomblob(16))), count = count - 1
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= OLD.id);
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))), count = count + (NEW.status <> 'cancelled')
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
  UPDATE order_list SET version = lower(hex(randomblob(16)));
END;
--> statement-breakpoint
CREATE TRIGGER `delete_changes_order_list` AFTER DELETE ON `orders`
WHEN OLD.status <> 'cancelled' AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  UPDATE order_segments SET version = lower(hex(randomblob(16))), count = count - 1
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= OLD.id);
  UPDATE order_list SET version = lower(hex(randomblob(16)));
END;
--> statement-breakpoint
-- Reads the orders of one segment. Both halves are counted anew, because the count may be too high.
CREATE TRIGGER `grown_segments_are_split` AFTER UPDATE OF count ON `order_segments`
WHEN NEW.count > 12288
BEGIN
  INSERT INTO order_segments (first_id, version, count)
  SELECT id, lower(hex(randomblob(16))), 0 FROM orders
  WHERE id >= NEW.first_id
    AND id < ifnull((SELECT min(first_id) FROM order_segments WHERE first_id > NEW.first_id), 9223372036854775807)
  ORDER BY id LIMIT 1 OFFSET 6144;
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))),
    count = (
      SELECT count(*) FROM orders
      WHERE id BETWEEN order_segments.first_id AND ifnull(
        (SELECT min(later.first_id) - 1 FROM order_segments AS later WHERE later.first_id > order_segments.first_id),
        9223372036854775807))
  WHERE first_id IN (NEW.first_id, (SELECT min(first_id) FROM order_segments WHERE first_id > NEW.first_id))
    -- Without a new segment, the next one is left alone.
    AND (first_id = NEW.first_id OR count = 0);
END;
--> statement-breakpoint
-- The previous segment takes over its range of ids, which holds no order.
CREATE TRIGGER `empty_segments_are_removed` AFTER UPDATE OF count ON `order_segments`
WHEN NEW.count = 0 AND NEW.first_id <> -9223372036854775808
BEGIN DELETE FROM order_segments WHERE first_id = NEW.first_id; END;
