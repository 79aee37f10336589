import { inspect } from "node:util";
import type { Statement } from "./database.ts";

/** Matches a parameter, or a string, quoted name or comment, where `?` is not a parameter. */
const QUOTED_OR_PARAMETER = /'[^']*'|"[^"]*"|`[^`]*`|\[[^\]]*\]|--[^\n]*|\/\*[^]*?\*\/|\?\d*/g;

/**
 * Replaces the parameters of a statement by SQL literals, for interfaces that accept no parameters.
 *
 * @throws {TypeError} if parameters are numbered, missing or left over, or if a value has no exact
 *   literal, such as `NaN`, or a text with NUL or half a surrogate pair.
 */
export function inlineParameters({ sql, params }: Statement): string {
  let next = 0;
  const inlined = sql.replace(QUOTED_OR_PARAMETER, (part) => {
    if (!part.startsWith("?")) return part;
    if (part !== "?") throw new TypeError(`numbered parameter ${part} in: ${sql}`);
    if (next === params.length) throw new TypeError(`too few parameters for: ${sql}`);
    return toLiteral(params[next++]);
  });
  if (next !== params.length) throw new TypeError(`too many parameters for: ${sql}`);
  return inlined;
}

function toLiteral(value: unknown): string {
  if (value === null) return "NULL";
  if (typeof value === "string") {
    if (value.includes("\0")) throw new TypeError("text with a NUL character cannot be stored");
    if (!value.isWellFormed())
      throw new TypeError("text that is not valid Unicode cannot be stored");
    return `'${value.replaceAll("'", "''")}'`;
  }
  if (typeof value === "number" && Number.isFinite(value)) {
    // Without the parentheses, `1 -?` with the value -1 would become `1 --1`, a comment.
    return `(${value})`;
  }
  throw new TypeError(`no SQL literal for ${inspect(value)}`);
}
