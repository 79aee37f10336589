/** The JSON text around the values of an order, without the braces, in the order of the API. */
export const JSON_MEMBERS = {
  id: '"id":',
  petId: ',"petId":',
  quantity: ',"quantity":',
  shipDate: ',"shipDate":"',
  afterShipDate: '"',
  complete: ',"complete":true',
  incomplete: ',"complete":false',
};

/**
 * A SQL expression for an order in shorthand: JSON with one letter for each recurring piece of
 * text. D1 encodes results as JSON, which the Worker parses. Both steps take half as long as for an
 * order's JSON, because shorthand is half as long and has no quotes to escape. `concat` treats
 * `NULL` as empty text.
 *
 * @param table the SQL name of a table with the columns of an order.
 */
export function orderShorthand(table: string): string {
  return `concat(${table}.id, 'p', ${table}.pet_id, 'q', ${table}.quantity, 's', ${table}.ship_date,
    CASE ${table}.complete WHEN 1 THEN 't' WHEN 0 THEN 'f' ELSE 'n' END)`;
}

/** The character between two orders in shorthand. */
export const SEPARATOR = "i";

/** The JSON that replaces a letter before a value; nothing if the value is missing. */
const PIECES_OF_VALUES = {
  p: JSON_MEMBERS.petId,
  q: JSON_MEMBERS.quantity,
  s: JSON_MEMBERS.shipDate,
};

/** The JSON that replaces every other letter, including the letters `T` and `Z` of a date. */
const PIECES = {
  [SEPARATOR]: `,{${JSON_MEMBERS.id}`,
  T: "T",
  Z: `Z${JSON_MEMBERS.afterShipDate}`,
  t: `${JSON_MEMBERS.complete}}`,
  f: `${JSON_MEMBERS.incomplete}}`,
  n: "}",
};

/** A bit that is set in ASCII letters, and clear in digits and in the characters `-:.`. */
const LETTER_BIT = 0x40;

/** The length of the longest order in shorthand, with its separator. */
export const MAX_SHORTHAND_BYTES =
  "-9223372036854775808p-9223372036854775808q-9223372036854775808s0000-00-00T00:00:00.000Zni"
    .length;

/**
 * An upper bound of the JSON bytes per byte of shorthand. The worst case is `i1p1q1sf`: its 8 bytes
 * become `,{"id":1,"petId":1,"quantity":1,"complete":false}`.
 */
const MAX_GROWTH = 7;

const encoder = new TextEncoder();

/** The bytes of an entry of `TABLE`: the JSON of a letter, its length before a value and before a letter. */
const ENTRY_BYTES = 32;
const LENGTHS_AT = 24;

/** The JSON of each ASCII letter. A flat table, because nested arrays double the time. */
const TABLE = new Uint8Array(128 * ENTRY_BYTES);
for (const [letter, json] of Object.entries({ ...PIECES, ...PIECES_OF_VALUES })) {
  const entry = TABLE.subarray(letter.charCodeAt(0) * ENTRY_BYTES);
  encoder.encodeInto(json, entry);
  entry[LENGTHS_AT] = json.length;
  entry[LENGTHS_AT + 1] = letter in PIECES_OF_VALUES ? 0 : json.length;
}

// Reused by every call, because allocating buffers takes longer than filling them.
let shorthandBytes = new Uint8Array();
let jsonBytes = new Uint8Array();

/**
 * Converts orders from shorthand to JSON objects that are separated by commas.
 *
 * @param shorthand complete orders in shorthand.
 * @param opening the text before the first order.
 * @param closing the text after the last order.
 */
export function toJson(
  shorthand: string,
  opening: "[" | ",",
  closing: "]" | "",
): Uint8Array<ArrayBuffer> {
  const maxBytes = (shorthand.length + 2) * MAX_GROWTH;
  if (jsonBytes.length < maxBytes) {
    shorthandBytes = new Uint8Array(shorthand.length + 2);
    jsonBytes = new Uint8Array(maxBytes);
  }
  const end = encoder.encodeInto(SEPARATOR + shorthand, shorthandBytes).written;
  shorthandBytes[end] = 0;
  const jsonEnd = expand(shorthandBytes, end, jsonBytes);
  // The expansion begins with the comma of the separator.
  jsonBytes[0] = opening.charCodeAt(0);
  return jsonBytes.slice(
    0,
    jsonEnd + encoder.encodeInto(closing, jsonBytes.subarray(jsonEnd)).written,
  );
}

/** Expands the bytes of a shorthand up to `end`, which a 0 follows. Returns the length of the JSON. */
function expand(shorthand: Uint8Array, end: number, json: Uint8Array): number {
  let length = 0;
  for (let read = 0; read < end;) {
    const byte = shorthand[read++] ?? 0;
    if ((byte & LETTER_BIT) === 0) {
      json[length++] = byte;
      continue;
    }
    const entry = byte * ENTRY_BYTES;
    const isBeforeLetter = (shorthand[read] ?? 0) >> 6;
    const pieceEnd = entry + (TABLE[entry + LENGTHS_AT + isBeforeLetter] ?? 0);
    for (let at = entry; at < pieceEnd; at += 1) json[length++] = TABLE[at] ?? 0;
  }
  return length;
}

/**
 * Returns the end of a slice of a shorthand that contains only complete orders.
 *
 * @param minBytes the minimum length of the slice, unless the shorthand ends earlier.
 */
export function sliceEnd(shorthand: string, start: number, minBytes: number): number {
  const end = shorthand.indexOf(SEPARATOR, start + minBytes);
  return end === -1 ? shorthand.length : end;
}
