/** Entity tags in a header: `"*"` matches any, `null` means that the header was not sent. */
type Tags = "*" | readonly { readonly value: string; readonly isWeak: boolean }[] | null;

/** The preconditions of a request (RFC 9110, section 13.1). */
export interface Preconditions {
  readonly ifMatch: Tags;
  readonly ifNoneMatch: Tags;
}

const ENTITY_TAG = /(?<weak>W\/)?"(?<value>[\x21\x23-\x7e\x80-\xff]*)"/g;

export function preconditionsOf(headers: Headers): Preconditions {
  return {
    ifMatch: tagsIn(headers.get("If-Match")),
    ifNoneMatch: tagsIn(headers.get("If-None-Match")),
  };
}

function tagsIn(header: string | null): Tags {
  if (header === null) return null;
  if (header.trim() === "*") return "*";
  return [...header.matchAll(ENTITY_TAG)].map(({ groups }) => ({
    value: groups?.["value"] ?? "",
    isWeak: groups?.["weak"] !== undefined,
  }));
}

/** Returns whether `If-Match` allows a request for a resource with this tag, if any (strongly). */
export function allowsMatch({ ifMatch }: Preconditions, tag: string | null): boolean {
  if (ifMatch === null || ifMatch === "*") return true;
  return ifMatch.some(({ value, isWeak }) => value === tag && !isWeak);
}

/** Returns whether a request may change a resource that exists and has no tag. */
export function allowsChange({ ifMatch, ifNoneMatch }: Preconditions): boolean {
  return (ifMatch === null || ifMatch === "*") && ifNoneMatch !== "*";
}

/** Returns the tags that the client already has. Weak tags count too (section 13.1.2). */
export function knownTags({ ifNoneMatch }: Preconditions): readonly string[] | "*" {
  return ifNoneMatch === "*" ? "*" : (ifNoneMatch ?? []).map(({ value }) => value);
}

/** Returns the tags that the clients of all these requests already have. */
export function commonTags(all: readonly (readonly string[] | "*")[]): readonly string[] | "*" {
  const [first, ...others] = all.filter((tags) => tags !== "*").map((tags) => new Set(tags));
  return first === undefined
    ? "*"
    : [...others.reduce((common, tags) => common.intersection(tags), first)];
}
