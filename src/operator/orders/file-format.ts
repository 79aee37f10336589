import { orderRecordSchema } from "../../rules/order.ts";
import { quote } from "../command-line.ts";

/** What a file is instead of JSON, and the shell command that writes its orders as JSON. */
export interface OtherFormat {
  readonly name: string;
  /** `undefined` if no common tool converts it. */
  readonly command?: string;
}

/** The number of bytes from the beginning by which a format is recognized. */
export const RECOGNIZED_BYTES = 1_000;

/** The formats that their first bytes tell, in Latin-1, and the tools that write their content. */
const SIGNATURES = [
  ["PK\x03\x04", "a zip archive", "unzip -p"],
  ["BZh", "compressed with bzip2", "bzcat"],
  ["\xfd7zXZ\0", "compressed with xz", "xzcat"],
  ["\x28\xb5\x2f\xfd", "compressed with zstd", "zstdcat"],
  ["\xff\xfe", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"],
  ["\xfe\xff", "text in UTF-16", "iconv -f UTF-16 -t UTF-8"],
  ["{\0", "text in UTF-16", "iconv -f UTF-16LE -t UTF-8"],
  ["[\0", "text in UTF-16", "iconv -f UTF-16LE -t UTF-8"],
] as const;

const SQL = /^\s*(?:--|\/\*|(?:PRAGMA|BEGIN|START|CREATE|INSERT|DROP|SET|COPY)\s)/i;
/** The first line of a file with columns. */
const HEADER = /^\s*(?<columns>[^\s<{[][^\n]*?(?<separator>[,;\t])[^\n]*?)\r?(?:\n|$)/;
const STRING = String.raw`"(?:[^"\\]|\\.)*"`;
/** An object whose first field that is a list or an object holds further objects. */
const WRAPPED = new RegExp(
  String.raw`^\s*\{\s*(?<before>(?:${STRING}\s*:\s*(?:${STRING}|[^"\s,{}[\]]+)\s*,\s*)*)"(?<name>\w+)"\s*:\s*(?:\[\s*\{|(?<map>\{))`,
);

const FIELDS = Object.keys(orderRecordSchema.shape);

/**
 * Recognizes a file that is not JSON with one order after another, by its first bytes.
 *
 * @param file the file's path as the operator typed it; empty for standard input.
 */
export function recognizeOther(bytes: Uint8Array, file: string): OtherFormat | undefined {
  const start = Buffer.from(bytes.subarray(0, RECOGNIZED_BYTES)).toString("latin1");
  const from = file === "" ? "" : ` ${quote(file)}`;
  const signature = SIGNATURES.find(([beginning]) => start.startsWith(beginning));
  if (signature !== undefined) return { name: signature[1], command: signature[2] + from };
  const sqlite = (database: string, ...lines: string[]) =>
    [`sqlite3 ${database}`, ...lines.map((line) => `"${line}"`)].join(" ");
  if (start.startsWith("SQLite format 3\0")) {
    const command = sqlite(quote(file), selectOrders("orders", FIELDS));
    return { name: "an SQLite database", ...(file !== "" && { command }) };
  }
  const input = file === "" ? "" : ` <${from}`;
  if (SQL.test(start)) {
    const lines = [".read /dev/stdin", selectOrders("orders", FIELDS)];
    return { name: "SQL", command: sqlite(":memory:", ...lines) + input };
  }
  const { before, name, map } = WRAPPED.exec(start)?.groups ?? {};
  if (name !== undefined && !/"id"/.test(before ?? "") && (!map || /^\d+$/.test(name))) {
    // Not jq, of which version 1.6 rounds large integers.
    const json = "CAST(readfile('/dev/stdin') AS TEXT)";
    const values = `SELECT value FROM json_each(${json}, '$${map ? "" : `.${name}`}')`;
    return {
      name: "one object with the orders inside",
      command: sqlite(":memory:", values) + input,
    };
  }
  if (/^\s*</.test(start)) return { name: "XML or HTML" };
  const { columns, separator } = HEADER.exec(start)?.groups ?? {};
  if (columns === undefined || separator === undefined) return undefined;
  const names = columns.split(separator).map((column) => column.replaceAll(/^\W+|\W+$/g, ""));
  const mode = separator === "\t" ? [".mode tabs"] : [".mode csv", `.separator '${separator}'`];
  const lines = [...mode, ".import /dev/stdin t", ".mode list", selectOrders("t", names)];
  return { name: "CSV", command: sqlite(":memory:", ...lines) + input };
}

/** Returns a query that writes each row as an order in JSON, without the columns that have no value. */
function selectOrders(table: string, columns: readonly string[]): string {
  const fold = (name: string) => name.replaceAll(/[^a-z]/gi, "").toLowerCase();
  const pairs = columns.flatMap((column) => {
    const field = FIELDS.find((name) => fold(name) === fold(column));
    // Any other character could end the query, or start a command of the shell.
    if (field === undefined || !/^[\w ]+$/.test(column)) return [];
    const value = `nullif([${column}], '')`;
    if (/^(?:status|shipDate|cancelledAt)$/.test(field)) return `'${field}', ${value}`;
    // As JSON, a number keeps every digit, and any other text is an error.
    return `'${field}', json(${field === "complete" ? `lower(${value})` : value})`;
  });
  return `SELECT json_patch('{}', json_object(${pairs.join(", ")})) FROM ${table}`;
}
