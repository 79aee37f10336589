import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { readSettings } from "../../src/operator/settings.ts";

it("settings name the custom domains among the routes, and a database without a name is refused", async () => {
  const folder = mkdtempSync(join(tmpdir(), "store-orders-settings-"));
  const database = (binding: string, name = "") =>
    `[[env.staging.d1_databases]]\nbinding = "${binding}"\n${name}`;
  const write = (keys: string) =>
    writeFileSync(
      join(folder, "wrangler.toml"),
      `name = "shop"
       [env.staging]
       routes = [
         { pattern = "orders.example", custom_domain = true },
         { pattern = "shop.example/orders", zone_name = "shop.example" },
       ]
       ${database("ORDERS", 'database_name = "o"')}
       ${keys}`,
    );
  write(database("KEYS", 'database_name = "k"'));
  expect(await readSettings("staging", folder)).toMatchObject({
    databases: { orders: "o", keys: "k" },
    customDomains: ["orders.example"],
  });
  write(database("KEYS"));
  await expect(readSettings("staging", folder)).rejects.toThrow("for the binding KEYS");
  rmSync(folder, { recursive: true });
});
