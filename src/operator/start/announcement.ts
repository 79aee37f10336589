import { resolve } from "node:path";
import { DEFAULT_STORE } from "../database/local-store.ts";
import type { DemoKey } from "./sample-store.ts";

/** The demo keys by plan. */
export function listDemoKeys(keys: readonly DemoKey[]): string {
  const lines = keys.map(({ plan, key }) => `  ${plan.padEnd(12)}${key}`);
  return `Demo keys, shown this once:\n${lines.join("\n")}\n\n`;
}

/** Where the service is, and what to type first: a request, or the command that makes a key for it. */
export function howToBegin(port: number, store: string, keys: readonly DemoKey[]): string {
  const url = `http://localhost:${port}`;
  const key = keys[0]?.key;
  const begin =
    key === undefined
      ? `Make a key, then use it:
  npm run keys -- create --plan free --name "My client"${storeOption(store)}
  curl -i -H "Authorization: Bearer <API_KEY>" ${url}/v1/store/orders`
      : `Try it:
  curl -i -H "Authorization: Bearer ${key}" ${url}/v1/store/orders`;
  return `Serving on ${url}, until Ctrl+C.\n\n${begin}\n\n`;
}

/** What the other commands need to find a store that is not the default one. */
function storeOption(store: string): string {
  return store === resolve(DEFAULT_STORE) ? "" : ` --persist-to ${quote(store)}`;
}

function quote(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}
