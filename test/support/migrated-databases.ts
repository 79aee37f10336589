import { applyD1Migrations } from "cloudflare:test";
import { env } from "cloudflare:workers";

export async function migrateDatabases(): Promise<void> {
  await applyD1Migrations(env.ORDERS, env.TEST_MIGRATIONS.orders);
  await applyD1Migrations(env.KEYS, env.TEST_MIGRATIONS.keys);
}
