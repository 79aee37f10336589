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
CREATE TRIGGER `insert_changes_order_list` AFTER INSERT ON `orders`
BEGIN UPDATE order_list SET version = lower(hex(randomblob(16))); END;
--> statement-breakpoint
CREATE TRIGGER `update_changes_order_list` AFTER UPDATE ON `orders`
BEGIN UPDATE order_list SET version = lower(hex(randomblob(16))); END;
--> statement-breakpoint
CREATE TRIGGER `delete_changes_order_list` AFTER DELETE ON `orders`
BEGIN UPDATE order_list SET version = lower(hex(randomblob(16))); END;
--> statement-breakpoint
INSERT INTO `order_list` (`id`, `version`) VALUES (1, lower(hex(randomblob(16))));
