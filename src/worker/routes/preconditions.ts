import { ApiError } from "../errors.ts";

/** The entity tags in `If-Match` or `If-None-Match`, without quotes; `"*"` matches any version. */
type EntityTags = "*" | { readonly strong: readonly string[]; readonly weak: readonly string[] };

const ENTITY_TAG = /(?<weak>W\/)?"(?<opaque>[\x21\x23-\x7e\x80-\xff]*)"/g;

/** Parses a header; `null` if it was not sent or is empty. Text that is no tag matches nothing. */
function entityTags(header: string | undefined): EntityTags | null {
  const value = header?.trim() ?? "";
  if (value === "") return null;
  if (value === "*") return "*";
  const tags = [...value.matchAll(ENTITY_TAG)].map(({ groups }) => ({
    isWeak: groups?.["weak"] !== undefined,
    opaque: groups?.["opaque"] ?? "",
  }));
  const opaque = (isWeak: boolean) =>
    tags.filter((tag) => tag.isWeak === isWeak).map((tag) => tag.opaque);
  return { strong: opaque(false), weak: opaque(true) };
}

/** The preconditions of a request (RFC 9110, section 13.1), and what they mean for each resource. */
export class Preconditions {
  readonly #ifMatch: EntityTags | null;
  readonly #ifNoneMatch: EntityTags | null;

  constructor(header: (name: string) => string | undefined) {
    this.#ifMatch = entityTags(header("If-Match"));
    this.#ifNoneMatch = entityTags(header("If-None-Match"));
  }

  /** The versions that the client already has. The comparison is weak (section 13.1.2). */
  get knownVersions(): readonly string[] | "*" {
    if (this.#ifNoneMatch === null) return [];
    if (this.#ifNoneMatch === "*") return "*";
    return [...this.#ifNoneMatch.strong, ...this.#ifNoneMatch.weak];
  }

  /** Whether `If-Match` allows a list of this version. The comparison is strong (section 13.1.1). */
  allowsList(version: string): boolean {
    return (
      this.#ifMatch === null || this.#ifMatch === "*" || this.#ifMatch.strong.includes(version)
    );
  }

  /** Whether an order that is there may be changed. An order has no tag, so only `*` matches it. */
  get allowsChange(): boolean {
    return (this.#ifMatch === null || this.#ifMatch === "*") && this.#ifNoneMatch !== "*";
  }
}

export function preconditionFailed(): ApiError {
  return new ApiError(
    "precondition_failed",
    "The condition in If-Match or If-None-Match is false, so nothing was changed. List the orders, then repeat the request with the current ETag or without the condition.",
  );
}
