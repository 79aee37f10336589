import { resolve } from "node:path";
import { quote } from "../command-line.ts";
import { DEFAULT_STORE } from "../database/local-store.ts";
import type { DemoKey } from "./sample-store.ts";

/** Formats the secrets of the demo keys, one line for each plan. */
export function formatDemoKeys(keys: readonly DemoKey[]): string {
  const lines = keys.map(({ plan, secret }) => `  ${plan.padEnd(12)}${secret}`);
  return `Demo keys, shown this once:\n${lines.join("\n")}\n\n`;
}

/**
 * Formats the address of the service and the first command to try. With a demo key, this command
 * sends a request. Without demo keys, it creates a key first.
 */
export function formatFirstSteps(port: number, store: string, keys: readonly DemoKey[]): string {
  const url = `http://localhost:${port}`;
  const secret = keys[0]?.secret;
  const begin =
    secret === undefined
      ? `Make a key, then use it:
  npm run keys -- create --plan free --name "My client"${storeOption(store)}
  curl -i -H "Authorization: Bearer <API_KEY>" ${url}/v1/store/orders`
      : `Try it:
  curl -i -H "Authorization: Bearer ${secret}" ${url}/v1/store/orders`;
  return `Serving on ${url}, until Ctrl+C.\n\n${begin}\n\n`;
}

/** Returns the message that is shown while the service starts, which takes some seconds. */
export function formatStart(
  store: string,
  { isNew, empty }: { readonly isNew: boolean; readonly empty: boolean },
): string {
  if (!isNew) return "Starting the service, which takes some seconds ...\n";
  const content = empty ? "" : ", sample orders and demo keys";
  return `Preparing a new store in ${store}: two databases${content}. This takes some seconds ...\n`;
}

/** Returns the option `--persist-to` that other commands need to find this store. */
function storeOption(store: string): string {
  return store === resolve(DEFAULT_STORE) ? "" : ` --persist-to ${quote(store)}`;
}
