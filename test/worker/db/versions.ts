import type { DatabaseName } from "../../../src/worker/db/availability.ts";
import { hashSecret } from "../../../src/rules/keys/secret.ts";

/** The secrets of three keys in the test data of `VERSIONS`. */
export const KEYS = {
  valid: "sord_vdhehzqk6qjkwp6fpzh6owhou4qtc6yxtvhyay6v",
  revoked: "sord_lj2qcjnon5pkcncdlzfoqdozxcsuabjnjtxxwdn3",
  expired: "sord_4gepiacolecjhsdq44jg4hkjvtqppfeqr5kczhkp",
};

/** The orders in the test data of `VERSIONS` that the API lists, as JSON. */
export const LISTED = [
  '{"id":-9223372036854775808,"petId":9223372036854775807,"quantity":-9223372036854775808,"shipDate":"2026-11-20T08:30:00.000Z","complete":false}',
  '{"id":1}',
  '{"id":2,"complete":true}',
  '{"id":9007199254740993,"petId":-9007199254740993}',
  '{"id":9223372036854775807,"quantity":0}',
];
export const PENDING_ID = "9007199254740993";
export const SHIPPED_ID = "2";

/** Test data and queries for one migration and the service version that was deployed with it. */
interface Version {
  /**
   * Statements that insert test rows into the tables and columns that the migration adds. Keep these
   * rows once the migration is deployed: later migrations are tested with them.
   */
  readonly data: string;
  /**
   * Queries of this version's Worker. They must keep working while the next migration is applied,
   * because this Worker still runs then.
   */
  readonly queries: readonly string[];
}

/** The versions of each database, by the file name of the version's migration. */
export const VERSIONS: Readonly<Record<DatabaseName, Readonly<Record<string, Version>>>> = {
  orders: {
    "0000_orders.sql": {
      data: `
        INSERT INTO orders (id, pet_id, quantity, ship_date, complete, status, cancelled_at) VALUES
          (-9223372036854775808, 9223372036854775807, -9223372036854775808, '2026-11-20T08:30:00.000Z', 0, 'pending', NULL),
          (1, NULL, NULL, NULL, NULL, 'pending', NULL),
          (2, NULL, NULL, NULL, 1, 'shipped', NULL),
          (9007199254740993, -9007199254740993, NULL, NULL, NULL, 'pending', NULL),
          (9223372036854775807, NULL, 0, NULL, NULL, 'shipped', NULL);
        INSERT INTO cancelled_orders (cancelled_at, id, pet_id, quantity, ship_date, complete) VALUES
          (1795000000123, 3, 7, NULL, NULL, NULL),
          (1795000000123, 4, -7, 9223372036854775807, '2026-11-20T08:30:00.000Z', 1);
        INSERT INTO order_import_parts (import_id, part, created_at, lines) VALUES ('a', 5, 1795000000123, '[]');
        UPDATE order_list SET version = '0123456789abcdef0123456789abcdef'`,
      queries: [
        `UPDATE orders SET status = 'cancelled', cancelled_at = 1 WHERE id = 0 AND status = 'pending' RETURNING 1`,
        `SELECT '{"id":' || id || coalesce(',"petId":' || pet_id, '') || coalesce(',"quantity":' || quantity, '') || coalesce(',"shipDate":"' || ship_date || '"', '') || complete FROM orders ORDER BY id`,
        "SELECT version FROM order_list",
        "SELECT first_id || '' AS first_id, version, count FROM order_segments ORDER BY order_segments.first_id",
        "SELECT cancelled_at, id, pet_id, quantity || '' AS quantity, ship_date, complete FROM cancelled_orders",
        "SELECT changed FROM order_bulk_change",
      ],
    },
    "0001_order_changes.sql": {
      data: `
        INSERT INTO order_changes (sequence, version, id, was_listed, pet_id, quantity, ship_date, complete) VALUES
          (1795000000123000, '0123456789abcdef0123456789abcdef', 5, 1, 7, 1, '2026-11-20T08:30:00.000Z', 0)`,
      queries: [
        "DELETE FROM orders WHERE id = 0 AND status = 'pending' RETURNING status",
        "SELECT version, sequence FROM order_list",
        "SELECT min(sequence), id, was_listed, pet_id, quantity, ship_date, complete FROM order_changes WHERE sequence > 0 GROUP BY id",
      ],
    },
  },
  keys: {
    "0000_keys.sql": {
      data: `
        INSERT INTO api_keys (id, hash, name, plan, per_minute, per_day, created_at, expires_at, revoked_at, revision, resets, last_four, location_hint) VALUES
          ('key_free', '${hashSecret(KEYS.valid)}', 'O''Brien ☕', 'free', NULL, NULL, 1795000000000, NULL, NULL, 0, 0, 'ay6v', NULL),
          ('key_pro', '${hashSecret(KEYS.revoked)}', 'B', 'pro', NULL, NULL, 1795000000001, NULL, 1795000000999, 1, 0, NULL, NULL),
          ('key_business', '${hashSecret(KEYS.expired)}', 'C', 'business', NULL, NULL, 1795000000002, 1795000000500, NULL, 2, 2, NULL, NULL),
          ('key_enterprise', 'ff', 'D', 'enterprise', 5000, 500000, 1795000000003, 4102444800000, NULL, 3, 1, NULL, 'weur');
        INSERT INTO former_key_hashes (hash, key_id, ends_at) VALUES ('fe', 'key_enterprise', 4102444800000);
        INSERT INTO key_changes (id, at, actor, action, key_id, details) VALUES
          (7, 1795000000999, 'ann', 'revoke', 'key_pro', '{"revokedAt":"2026-11-18T06:13:20.999Z"}');
        INSERT INTO key_usage (key_id, day, admitted, refused, strikes, bans, peak_minute, peak_day, per_minute, per_day, reported_at)
          VALUES ('key_free', '2026-11-18', 900, 30, 20, 1, 60, 900, 60, 1000, 1795000000999);
        INSERT INTO key_bans (key_id, began_at, ends_at, number, lifted_at) VALUES
          ('key_free', 1795000000000, 1795000060000, 1, 1795000001000),
          ('key_free', 1795000002000, 1795000122000, 2, NULL)`,
      queries: [
        `SELECT id, hash, name, plan, per_minute, per_day, created_at, expires_at, revoked_at, revision, resets, last_four, location_hint FROM api_keys`,
        "SELECT key_id, ends_at FROM former_key_hashes WHERE hash = 'fe'",
        "SELECT key_id, day, admitted, refused, strikes, bans, peak_minute, peak_day, per_minute, per_day, reported_at FROM key_usage",
        "SELECT key_id, began_at, ends_at, number, lifted_at FROM key_bans",
      ],
    },
    "0001_former_last_four.sql": {
      data: `INSERT INTO former_key_hashes (hash, key_id, ends_at, last_four) VALUES ('fd', 'key_pro', 1795000000000, 'x7aq')`,
      queries: [],
    },
  },
};
