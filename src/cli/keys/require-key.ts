import type { ApiKey } from "../../api-keys/api-key.ts";

/** @throws an Error for the operator where there is no such record. */
export function requireKey(record: ApiKey | undefined, id: string): ApiKey {
  if (record !== undefined) return record;
  throw new Error(`no key has the id ${JSON.stringify(id)}; \`npm run keys -- list\` shows them`);
}
