import { Table } from "console-table-printer";
import { type ApiKey, keyState, limitsOf } from "../../api-keys/api-key.ts";
import { printJson } from "../command-line.ts";

/** A key's record as `--json` prints it. Times are ISO 8601 in UTC; the limits are those in force. */
export interface KeyRecord {
  readonly id: string;
  readonly plan: string;
  readonly name: string;
  readonly perMinute: number;
  readonly perDay: number;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
}

export function toKeyRecord(apiKey: ApiKey): KeyRecord {
  const { perMinute, perDay } = limitsOf(apiKey);
  return {
    id: apiKey.id,
    plan: apiKey.plan,
    name: apiKey.name,
    perMinute,
    perDay,
    createdAt: apiKey.createdAt.toISOString(),
    expiresAt: apiKey.expiresAt?.toISOString() ?? null,
    revokedAt: apiKey.revokedAt?.toISOString() ?? null,
  };
}

/** Prints one key for `--json`, or else as a table under a sentence that says what happened. */
export function printKey(apiKey: ApiKey, options: { json: boolean; title?: string }): void {
  if (options.json) return printJson(toKeyRecord(apiKey));
  if (options.title !== undefined) process.stdout.write(`${options.title}\n`);
  printTable([apiKey]);
}

/** Prints many keys: for `--json` one array. */
export function printKeys(keys: readonly ApiKey[], options: { json: boolean }): void {
  if (options.json) return printJson(keys.map(toKeyRecord));
  if (keys.length > 0) return printTable(keys);
  process.stdout.write(
    "There are no keys yet: `npm run keys -- create --help` tells how to make one.\n",
  );
}

function printTable(keys: readonly ApiKey[]): void {
  const now = Date.now();
  const table = new Table({
    shouldDisableColors: true,
    columns: [
      { name: "id", alignment: "left" },
      { name: "name", alignment: "left" },
      { name: "plan", alignment: "left" },
      { name: "perMinute", title: "per minute" },
      { name: "perDay", title: "per day" },
      { name: "state", alignment: "left" },
      { name: "created", alignment: "left" },
      { name: "expires", alignment: "left" },
      { name: "revoked", alignment: "left" },
    ],
  });
  for (const key of keys) {
    const { id, name, plan, perMinute, perDay, createdAt, expiresAt, revokedAt } = toKeyRecord(key);
    table.addRow({
      id,
      name,
      plan,
      perMinute,
      perDay,
      state: keyState(key, now),
      created: createdAt,
      expires: expiresAt ?? "never",
      revoked: revokedAt ?? "",
    });
  }
  process.stdout.write(`${table.render()}\n`);
}
