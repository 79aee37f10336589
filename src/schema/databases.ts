/**
 * The databases of the service: `migrations/` has a folder for each. `keys` contains the API keys, the
 * audit trail, bans and usage.
 */
export const DATABASE_NAMES = ["orders", "keys"] as const;
export type DatabaseName = (typeof DATABASE_NAMES)[number];

/** The binding of each database in `wrangler.toml`, by the name of the database. */
export const BINDINGS = { orders: "ORDERS", keys: "KEYS" } as const;
