import { BLOBS, DOUBLES } from "../../worker/telemetry/columns.ts";

/** The column of the Analytics Engine data set for each field of a record. */
export const COLUMNS = {
  keyId: "index1",
  ...columns("blob", BLOBS),
  ...columns("double", DOUBLES),
} as const;

function columns<Name extends string>(kind: string, names: readonly Name[]): Record<Name, string> {
  return Object.fromEntries(
    names.map((name, position) => [name, `${kind}${position + 1}`]),
  ) as Record<Name, string>;
}
