import { orderRecordSchema } from "../../rules/order.ts";
import { parseFile } from "../arguments.ts";
import { quote, typedLine } from "../command-line.ts";

/** The number of bytes from the beginning by which a format is recognized. */
export const RECOGNIZED_BYTES = 1_000;

/** The formats that their first bytes tell, in Latin-1, and the tools that write their content. */
const SIGNATURES = [
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
const HEADER = /^\s*(?<columns>[^\s\p{Cc}<{[][^\n]*?(?<separator>[,;\t])[^\n]*?)\r?(?:\n|$)/u;
const STRING = String.raw`"(?:[^"\\]|\\.)*"`;
/** An object whose first field that is a list or an object holds further objects. */
const WRAPPED = new RegExp(
  String.raw`^\s*\{\s*(?<before>(?:${STRING}\s*:\s*(?:${STRING}|[^"\s,{}[\]]+)\s*,\s*)*)"(?<name>\w+)"\s*:\s*(?:\[\s*\{|(?<map>\{))`,
);

const FIELDS = Object.keys(orderRecordSchema.shape);

/**
 * Recognizes a file that is not JSON with one order after another, by its first bytes.
 *
 * @param file `-` for standard input.
 * @throws an Error that names the format, and the line that converts it if a common tool does.
 */
export function refuseOthers(bytes: Uint8Array, file: string): void {
  const [script, ...words] = typedLine();
  const typed = file === "-" ? "" : (words.find((word) => parseFile(word) === file) ?? "");
  const [name, command] = recognize(bytes, typed && ` ${quote(typed)}`) ?? [];
  if (name === undefined) return;
  const converted = `${typed}.ndjson`;
  const line = [script, ...words.map((word) => quote(word === typed ? converted : word))];
  const again = typed && ` > ${quote(converted)} &&\n  ${line.join(" ")}`;
  const advice = command === undefined ? "" : `. Convert it:\n  ${command}${again}`;
  const what = file === "-" ? "standard input" : file;
  throw new Error(`${what} is ${name}, but an import reads orders in JSON${advice}`);
}

/** @param from the file as the last argument of a command; empty for standard input. */
function recognize(bytes: Uint8Array, from: string): [name: string, command?: string] | undefined {
  const start = Buffer.from(bytes.subarray(0, RECOGNIZED_BYTES)).toString("latin1");
  const signature = SIGNATURES.find(([beginning]) => start.startsWith(beginning));
  if (signature !== undefined) return [signature[1], signature[2] + from];
  // These tools read no pipe.
  const onFile = (command: string, rest = ""): [] | [string] =>
    from === "" ? [] : [`${command}${from}${rest}`];
  if (start.startsWith("PK\x03\x04")) return ["a zip archive", ...onFile("unzip -p")];
  if (start.startsWith("SQLite format 3\0")) {
    return ["an SQLite database", ...onFile("sqlite3", ` "${selectOrders("orders", FIELDS)}"`)];
  }
  const sqlite = (...lines: readonly string[]) => {
    const quoted = lines.map((line) => ` "${line}"`).join("");
    return `sqlite3 :memory:${quoted}${from && ` <${from}`}`;
  };
  if (SQL.test(start)) return ["SQL", sqlite(".read /dev/stdin", selectOrders("orders", FIELDS))];
  const { before, name, map } = WRAPPED.exec(start)?.groups ?? {};
  if (name !== undefined && !/"id"/.test(before ?? "") && (!map || /^\d+$/.test(name))) {
    // Not jq, of which version 1.6 rounds large integers.
    const json = "CAST(readfile('/dev/stdin') AS TEXT)";
    const values = `SELECT value FROM json_each(${json}, '$${map ? "" : `.${name}`}')`;
    return ["one object with the orders inside", sqlite(values)];
  }
  if (/^\s*</.test(start)) return ["XML or HTML"];
  const { columns, separator } = HEADER.exec(start)?.groups ?? {};
  if (columns === undefined || separator === undefined) return undefined;
  const names = columns.split(separator).map((column) => column.replaceAll(/^\W+|\W+$/g, ""));
  const mode = separator === "\t" ? [".mode tabs"] : [".mode csv", `.separator '${separator}'`];
  const query = selectOrders("t", names);
  return ["CSV", sqlite(...mode, ".import /dev/stdin t", ".mode list", query)];
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
