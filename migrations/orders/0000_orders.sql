-- The cancelled orders. An id can occur several times: a cancelled order can be imported again.
CREATE TABLE `cancelled_orders` (
	`cancelled_at` integer NOT NULL,
	`id` integer NOT NULL,
	`pet_id` integer,
	`quantity` integer,
	`ship_date` text,
	`complete` integer,
	PRIMARY KEY(`cancelled_at`, `id`)
) STRICT, WITHOUT ROWID;
-- Turns off the triggers on order_list and order_segments while it has a row: within the transaction of
-- a bulk change such as an import, which rebuilds the segments at its end. `changed` is 1 if the
-- transaction has changed an order. If 0, the segments are not rebuilt.
CREATE TABLE `order_bulk_change` (
	`id` integer PRIMARY KEY NOT NULL,
	`changed` integer NOT NULL,
	CONSTRAINT "order_bulk_change_is_one_row" CHECK("order_bulk_change"."id" = 1)
) STRICT;
-- Parts of imports. After the last part has arrived, one transaction moves all to `orders`. `import_id`
-- is a digest of the whole import, so that a repeated import reuses its parts; `part` counts from 0;
-- `lines` is a JSON array of `[line, id, petId, quantity, shipDate, complete, status]`.
CREATE TABLE `order_import_parts` (
	`import_id` text NOT NULL,
	`part` integer NOT NULL,
	`created_at` integer NOT NULL,
	`lines` text NOT NULL,
	PRIMARY KEY(`import_id`, `part`)
) STRICT;
-- The version of the list of orders, in a single row. Triggers replace it with every change of an order.
-- It is random, so that a restored database never repeats a version.
CREATE TABLE `order_list` (
	`id` integer PRIMARY KEY NOT NULL,
	`version` text NOT NULL,
	CONSTRAINT "order_list_is_one_row" CHECK("order_list"."id" = 1)
) STRICT;
-- The segments of the list of orders, with some thousand orders each: the ids from `first_id` until before
-- the `first_id` of the next segment. The first one begins at the smallest int64. Triggers give a segment
-- a new random version with every change of its orders, and split a large one. So a version identifies
-- the same orders forever. `count` may be too large: INSERT OR REPLACE may count an order twice.
CREATE TABLE `order_segments` (
	`first_id` integer PRIMARY KEY NOT NULL,
	`version` text NOT NULL,
	`count` integer NOT NULL
) STRICT;
-- The orders that the list contains. A trigger moves cancelled orders to `cancelled_orders`. `ship_date` is
-- RFC 3339 in UTC with three decimals.
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
INSERT INTO `order_list` (`id`, `version`) VALUES (1, lower(hex(randomblob(16))));
INSERT INTO `order_segments` (`first_id`, `version`, `count`) VALUES (-9223372036854775808, lower(hex(randomblob(16))), 0);
-- A shipped order is final, whoever writes to the database (docs/api.md, section Cancelling).
CREATE TRIGGER `shipped_orders_stay_shipped` BEFORE UPDATE ON `orders`
WHEN OLD.status = 'shipped' AND (NEW.status <> 'shipped' OR NEW.id <> OLD.id)
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be turned back'); END;
CREATE TRIGGER `shipped_orders_are_not_overwritten` BEFORE UPDATE OF id ON `orders`
WHEN NEW.id <> OLD.id AND EXISTS (SELECT 1 FROM orders WHERE id = NEW.id AND status = 'shipped')
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be overwritten'); END;
-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger.
CREATE TRIGGER `shipped_orders_are_not_replaced` BEFORE INSERT ON `orders`
WHEN NEW.status <> 'shipped' AND EXISTS (SELECT 1 FROM orders WHERE id = NEW.id AND status = 'shipped')
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be turned back'); END;
CREATE TRIGGER `shipped_orders_are_kept` BEFORE DELETE ON `orders`
WHEN OLD.status = 'shipped'
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be deleted'); END;
CREATE TRIGGER `cancelled_orders_are_moved` AFTER UPDATE OF status ON `orders`
WHEN NEW.status = 'cancelled'
BEGIN
  INSERT OR REPLACE INTO cancelled_orders (cancelled_at, id, pet_id, quantity, ship_date, complete)
  VALUES (NEW.cancelled_at, NEW.id, NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete);
  DELETE FROM orders WHERE id = NEW.id;
END;
CREATE TRIGGER `orders_inserted_cancelled_are_moved` AFTER INSERT ON `orders`
WHEN NEW.status = 'cancelled'
BEGIN
  INSERT OR REPLACE INTO cancelled_orders (cancelled_at, id, pet_id, quantity, ship_date, complete)
  VALUES (NEW.cancelled_at, NEW.id, NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete);
  DELETE FROM orders WHERE id = NEW.id;
END;
-- A cancelled order is not counted, but INSERT OR REPLACE may replace a listed order with it.
CREATE TRIGGER `insert_changes_order_list` AFTER INSERT ON `orders`
WHEN NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))), count = count + (NEW.status <> 'cancelled')
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
  UPDATE order_list SET version = lower(hex(randomblob(16)));
END;
-- Subtracts a cancelled order from its segment's count. So its deletion must not subtract it again.
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
CREATE TRIGGER `delete_changes_order_list` AFTER DELETE ON `orders`
WHEN OLD.status <> 'cancelled' AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  UPDATE order_segments SET version = lower(hex(randomblob(16))), count = count - 1
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= OLD.id);
  UPDATE order_list SET version = lower(hex(randomblob(16)));
END;
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
    -- If no segment was inserted, the next segment is an old one, which must not change.
    AND (first_id = NEW.first_id OR count = 0);
END;
-- The previous segment takes over its range of ids, which holds no order.
CREATE TRIGGER `empty_segments_are_removed` AFTER UPDATE OF count ON `order_segments`
WHEN NEW.count = 0 AND NEW.first_id <> -9223372036854775808
BEGIN DELETE FROM order_segments WHERE first_id = NEW.first_id; END;
