-- The former states of orders, to read an earlier list. Triggers insert them with every change.
-- `sequence`: Unix microseconds; one more than the previous change's number if that is larger.
-- `version`: the list's version after the change. A restored database can assign `sequence` again.
-- `id`: NULL for a bulk change, which keeps no former states.
-- `was_listed`: 1 if the order was in the list before the change. If 0, the other columns are NULL.
CREATE TABLE `order_changes` (
	`sequence` integer PRIMARY KEY NOT NULL,
	`version` text NOT NULL,
	`id` integer,
	`was_listed` integer NOT NULL,
	`pet_id` integer,
	`quantity` integer,
	`ship_date` text,
	`complete` integer
) STRICT;
-- The sequence number of the change that set `version`.
ALTER TABLE `order_list` ADD `sequence` integer DEFAULT 0 NOT NULL;
-- A list of the present version is read as of this row, until the first change.
INSERT INTO `order_changes` (`sequence`, `version`, `was_listed`) SELECT 0, `version`, 0 FROM `order_list`;
DROP TRIGGER `shipped_orders_are_not_overwritten`;
DROP TRIGGER `renumbering_changes_order_list`;
DROP TRIGGER `insert_changes_order_list`;
DROP TRIGGER `update_changes_order_list`;
DROP TRIGGER `delete_changes_order_list`;
-- Every change of an order sets the version of the list through this trigger.
CREATE TRIGGER `change_renews_order_list` AFTER INSERT ON `order_changes`
BEGIN UPDATE order_list SET version = NEW.version, sequence = NEW.sequence; END;
CREATE TRIGGER `orders_keep_their_id` BEFORE UPDATE ON `orders`
WHEN NEW.id <> OLD.id
BEGIN SELECT RAISE(ABORT, 'the id of an order cannot be changed'); END;
-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger. Every other insertion over an
-- existing order fires this trigger too, so it keeps the version of the list: the insertion may change
-- nothing.
CREATE TRIGGER `replacement_is_recorded` BEFORE INSERT ON `orders`
WHEN EXISTS (SELECT 1 FROM orders WHERE id = NEW.id) AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed, pet_id, quantity, ship_date, complete)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), version,
    orders.id, 1, pet_id, quantity, ship_date, complete
  FROM order_list, orders WHERE orders.id = NEW.id;
END;
-- A cancelled order is not counted, but INSERT OR REPLACE may replace a listed order with it.
CREATE TRIGGER `insert_changes_order_list` AFTER INSERT ON `orders`
WHEN NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))), NEW.id, 0
  FROM order_list;
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))), count = count + (NEW.status <> 'cancelled')
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
END;
-- Subtracts a cancelled order from its segment's count. So its deletion must not subtract it again.
CREATE TRIGGER `update_changes_order_list` AFTER UPDATE ON `orders`
WHEN (NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete, NEW.status)
    IS NOT (OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete, OLD.status)
  AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed, pet_id, quantity, ship_date, complete)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))),
    OLD.id, 1, OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete
  FROM order_list;
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))), count = count - (NEW.status = 'cancelled')
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
END;
CREATE TRIGGER `delete_changes_order_list` AFTER DELETE ON `orders`
WHEN OLD.status <> 'cancelled' AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed, pet_id, quantity, ship_date, complete)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))),
    OLD.id, 1, OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete
  FROM order_list;
  UPDATE order_segments SET version = lower(hex(randomblob(16))), count = count - 1
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= OLD.id);
END;
-- A bulk change keeps no former states, so no list is read as it was before this row.
CREATE TRIGGER `bulk_change_is_recorded` AFTER DELETE ON `order_bulk_change`
WHEN OLD.changed > 0
BEGIN
  INSERT INTO order_changes (sequence, version, was_listed)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))), 0
  FROM order_list;
END;
