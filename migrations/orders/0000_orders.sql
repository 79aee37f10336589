-- The database of orders. src/schema/orders.ts describes the same tables in TypeScript.
-- All times are Unix milliseconds, except where a comment says otherwise.

-- The orders that the list contains. `ship_date` is RFC 3339 in UTC with three decimals.
CREATE TABLE orders (
  id INTEGER PRIMARY KEY NOT NULL,
  pet_id INTEGER,
  quantity INTEGER,
  ship_date TEXT,
  complete INTEGER,
  status TEXT NOT NULL DEFAULT 'pending',
  CONSTRAINT ship_date_is_utc_milliseconds CHECK (ship_date IS strftime('%Y-%m-%dT%H:%M:%fZ', ship_date, '+0 seconds')),
  CONSTRAINT complete_is_boolean CHECK (complete IN (0, 1)),
  CONSTRAINT status_is_known CHECK (status IN ('pending', 'shipped'))
) STRICT;

-- The cancelled orders, for the record. An id can occur several times: a cancelled order can be placed anew.
-- `position`: Unix microseconds, or one more than every earlier position and `sequence` if that is larger.
-- So positions grow with every cancellation, also after a restoration. `cancelled_by`: the id of the key.
CREATE TABLE cancelled_orders (
  position INTEGER PRIMARY KEY NOT NULL,
  cancelled_at INTEGER NOT NULL,
  cancelled_by TEXT,
  id INTEGER NOT NULL,
  pet_id INTEGER,
  quantity INTEGER,
  ship_date TEXT,
  complete INTEGER
) STRICT;
CREATE INDEX cancelled_orders_id ON cancelled_orders (id);

-- The version of the list of orders, in a single row. Triggers replace it with every change of an order. It
-- is random, so that a restored database never repeats a version. `sequence`: of the change that set it.
CREATE TABLE order_list (
  id INTEGER PRIMARY KEY NOT NULL,
  version TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  CONSTRAINT order_list_is_one_row CHECK (id = 1)
) STRICT;

-- The segments of the list, with a few thousand orders each: the ids from `first_id` until before the
-- `first_id` of the next segment. The first one begins at the smallest int64. Triggers give a segment a new
-- random version with every change of its orders, and split a large one. So a version identifies the same
-- orders forever. `bytes`: the length of the JSON of its orders, or more: INSERT OR REPLACE may count an order
-- twice, and an order counts as if it had all fields.
CREATE TABLE order_segments (
  first_id INTEGER PRIMARY KEY NOT NULL,
  version TEXT NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;

-- The former states of orders, to read an earlier list. Triggers insert them with every change.
-- `sequence`: Unix microseconds; one more than the previous change's number if that is larger.
-- `version`: the list's version after the change. A restored database can assign `sequence` again.
-- `id`: NULL for a bulk change, which keeps no former states.
-- `was_listed`: 1 if the order was in the list before the change. If 0, the other columns are NULL.
CREATE TABLE order_changes (
  sequence INTEGER PRIMARY KEY NOT NULL,
  version TEXT NOT NULL,
  id INTEGER,
  was_listed INTEGER NOT NULL,
  pet_id INTEGER,
  quantity INTEGER,
  ship_date TEXT,
  complete INTEGER
) STRICT;

-- The changes as of which a list is read that has been under way for hours: housekeeping keeps the former
-- states since then. `renewed_at`: when a list last asked for that.
CREATE TABLE order_list_leases (
  sequence INTEGER PRIMARY KEY NOT NULL,
  renewed_at INTEGER NOT NULL
) STRICT;

-- Turns off the triggers that record changes while it has a row: within the transaction of a bulk change
-- such as an import, which rebuilds the segments at its end.
CREATE TABLE order_bulk_change (
  id INTEGER PRIMARY KEY NOT NULL,
  CONSTRAINT order_bulk_change_is_one_row CHECK (id = 1)
) STRICT;

-- Parts of imports. After the last part has arrived, one transaction moves all to `orders`. `import_id` is a
-- digest of the whole import, so that a repeated import reuses its parts; `part` counts from 0; `lines` is a
-- JSON array of `[line, id, petId, quantity, shipDate, complete, status]`.
CREATE TABLE order_import_parts (
  import_id TEXT NOT NULL,
  part INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  lines TEXT NOT NULL,
  PRIMARY KEY (import_id, part)
) STRICT;

INSERT INTO order_list (id, version, sequence) VALUES (1, lower(hex(randomblob(16))), 0);
INSERT INTO order_segments (first_id, version, bytes)
VALUES (-9223372036854775808, lower(hex(randomblob(16))), 0);
-- A list of the first version is read as of this row, until the first change.
INSERT INTO order_changes (sequence, version, was_listed) SELECT 0, version, 0 FROM order_list;

-- A shipped order is final, whoever writes to the database (docs/api.md, Cancelling).
CREATE TRIGGER orders_keep_their_id BEFORE UPDATE ON orders
WHEN NEW.id <> OLD.id
BEGIN SELECT RAISE(ABORT, 'the id of an order cannot be changed'); END;
CREATE TRIGGER shipped_orders_stay_shipped BEFORE UPDATE ON orders
WHEN OLD.status = 'shipped' AND NEW.status <> 'shipped'
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be turned back'); END;
-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger.
CREATE TRIGGER shipped_orders_are_not_replaced BEFORE INSERT ON orders
WHEN NEW.status <> 'shipped' AND EXISTS (SELECT 1 FROM orders WHERE id = NEW.id AND status = 'shipped')
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be turned back'); END;
CREATE TRIGGER shipped_orders_are_kept BEFORE DELETE ON orders
WHEN OLD.status = 'shipped'
BEGIN SELECT RAISE(ABORT, 'a shipped order cannot be deleted'); END;

-- Every change of an order sets the version of the list through this trigger.
CREATE TRIGGER change_renews_order_list AFTER INSERT ON order_changes
BEGIN UPDATE order_list SET version = NEW.version, sequence = NEW.sequence; END;

-- INSERT OR REPLACE deletes the old row without firing its DELETE trigger. Every other insertion over an
-- existing order fires this trigger too, so it keeps the version of the list: the insertion may change
-- nothing.
CREATE TRIGGER replacement_is_recorded BEFORE INSERT ON orders
WHEN EXISTS (SELECT 1 FROM orders WHERE id = NEW.id) AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed, pet_id, quantity, ship_date, complete)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), version,
    orders.id, 1, pet_id, quantity, ship_date, complete
  FROM order_list, orders WHERE orders.id = NEW.id;
END;
CREATE TRIGGER insert_changes_order_list AFTER INSERT ON orders
WHEN NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))), NEW.id, 0
  FROM order_list;
  UPDATE order_segments SET version = lower(hex(randomblob(16))),
    bytes = bytes + 64 + octet_length(concat(NEW.id, NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete))
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
END;
CREATE TRIGGER update_changes_order_list AFTER UPDATE ON orders
WHEN (NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete, NEW.status)
    IS NOT (OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete, OLD.status)
  AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed, pet_id, quantity, ship_date, complete)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))),
    OLD.id, 1, OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete
  FROM order_list;
  UPDATE order_segments SET version = lower(hex(randomblob(16))),
    bytes = bytes - (64 + octet_length(concat(OLD.id, OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete)))
      + 64 + octet_length(concat(NEW.id, NEW.pet_id, NEW.quantity, NEW.ship_date, NEW.complete))
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= NEW.id);
END;
CREATE TRIGGER delete_changes_order_list AFTER DELETE ON orders
WHEN NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  INSERT INTO order_changes (sequence, version, id, was_listed, pet_id, quantity, ship_date, complete)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))),
    OLD.id, 1, OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete
  FROM order_list;
  UPDATE order_segments SET version = lower(hex(randomblob(16))),
    bytes = bytes - (64 + octet_length(concat(OLD.id, OLD.pet_id, OLD.quantity, OLD.ship_date, OLD.complete)))
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id <= OLD.id);
END;

-- Splits a segment at its middle order. Both halves are measured anew, because `bytes` may be too high.
CREATE TRIGGER grown_segments_are_split AFTER UPDATE OF bytes ON order_segments
WHEN NEW.bytes > 262144
BEGIN
  INSERT INTO order_segments (first_id, version, bytes)
  SELECT id, lower(hex(randomblob(16))), 0 FROM orders
  WHERE id > NEW.first_id
    AND id < ifnull((SELECT min(first_id) FROM order_segments WHERE first_id > NEW.first_id), 9223372036854775807)
  ORDER BY id LIMIT 1 OFFSET (
    SELECT count(*) / 2 FROM orders
    WHERE id > NEW.first_id
      AND id < ifnull((SELECT min(first_id) FROM order_segments WHERE first_id > NEW.first_id), 9223372036854775807));
  UPDATE order_segments
  SET version = lower(hex(randomblob(16))),
    bytes = ifnull((
      SELECT sum(64 + octet_length(concat(id, pet_id, quantity, ship_date, complete))) FROM orders
      WHERE id BETWEEN order_segments.first_id AND ifnull(
        (SELECT min(later.first_id) - 1 FROM order_segments AS later WHERE later.first_id > order_segments.first_id),
        9223372036854775807)), 0)
  WHERE first_id IN (NEW.first_id, (SELECT min(first_id) FROM order_segments WHERE first_id > NEW.first_id))
    -- If no segment was inserted, the next segment is an old one, which must not change.
    AND (first_id = NEW.first_id OR bytes = 0);
END;
-- The previous segment takes over its range of ids, which holds no order.
CREATE TRIGGER empty_segments_are_removed AFTER UPDATE OF bytes ON order_segments
WHEN NEW.bytes = 0 AND NEW.first_id <> -9223372036854775808
BEGIN DELETE FROM order_segments WHERE first_id = NEW.first_id; END;
-- A list has a limited number of segments, so small neighbours are joined: whenever 8 KiB are gone, because
-- looking at the neighbours reads rows. Deleting a segment joins it to the previous one.
CREATE TRIGGER shrunk_segments_are_joined AFTER UPDATE OF bytes ON order_segments
WHEN NEW.bytes / 8192 < OLD.bytes / 8192 AND NEW.bytes BETWEEN 1 AND 87381
BEGIN
  DELETE FROM order_segments
  WHERE first_id = (SELECT min(first_id) FROM order_segments WHERE first_id > NEW.first_id)
    -- A split inserts a segment with 0 bytes, and measures it later.
    AND bytes > 0 AND bytes + NEW.bytes <= 87381;
  DELETE FROM order_segments
  WHERE first_id = NEW.first_id AND bytes + (
    SELECT bytes FROM order_segments WHERE first_id = (
      SELECT max(first_id) FROM order_segments WHERE first_id < NEW.first_id)) <= 87381;
END;
CREATE TRIGGER deleted_segments_are_joined AFTER DELETE ON order_segments
WHEN OLD.bytes > 0 AND NOT EXISTS (SELECT 1 FROM order_bulk_change)
BEGIN
  UPDATE order_segments SET version = lower(hex(randomblob(16))), bytes = bytes + OLD.bytes
  WHERE first_id = (SELECT max(first_id) FROM order_segments WHERE first_id < OLD.first_id);
END;

-- A bulk change keeps no former states, so no list is read as it was before this row.
CREATE TRIGGER bulk_change_is_recorded AFTER DELETE ON order_bulk_change
BEGIN
  INSERT INTO order_changes (sequence, version, was_listed)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))), 0
  FROM order_list;
END;
