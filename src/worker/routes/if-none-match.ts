const ENTITY_TAG = /(?:W\/)?"(?<opaque>[\x21\x23-\x7e\x80-\xff]*)"/g;

/**
 * The versions that an `If-None-Match` header names, compared weakly as RFC 9110, section 13.1.2,
 * has it. `*` matches any version.
 */
export function versionsIn(header: string | undefined): readonly string[] | "*" {
  if (header === undefined) return [];
  if (header.trim() === "*") return "*";
  return [...header.matchAll(ENTITY_TAG)].map((match) => match.groups?.["opaque"] ?? "");
}
