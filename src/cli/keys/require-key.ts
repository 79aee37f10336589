import type { ManagedKey } from "../../api-keys/managed-key.ts";

/** @throws an Error for the operator where there is no such record. */
export function requireKey(record: ManagedKey | undefined, id: string): ManagedKey {
  if (record !== undefined) return record;
  throw new Error(`no key has the id ${JSON.stringify(id)}; \`npm run keys -- list\` shows them`);
}
