-- Every bulk change rebuilds the segments, so nothing reads whether it has changed an order.
DROP TRIGGER bulk_change_is_recorded;
ALTER TABLE order_bulk_change DROP COLUMN changed;
-- A bulk change keeps no former states, so no list is read as it was before this row.
CREATE TRIGGER bulk_change_is_recorded AFTER DELETE ON order_bulk_change
BEGIN
  INSERT INTO order_changes (sequence, version, was_listed)
  SELECT max(sequence + 1, CAST(unixepoch('subsec') * 1000000 AS INTEGER)), lower(hex(randomblob(16))), 0
  FROM order_list;
END;
