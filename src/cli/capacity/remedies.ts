import type { GrowingLimit } from "./platform-limits.ts";

/** What to do about a limit before it is broken, the cheapest first. `docs/capacity.md` says more. */
export const REMEDIES: Readonly<Record<GrowingLimit, readonly string[]>> = {
  databaseTime: [
    "Ask clients for If-None-Match: a 304 takes one small query, however long the list is.",
    "Turn on read replication: order-pages.ts already reads all pages but the first in a session that replicas may serve.",
    "Let one reading serve all who wait for it (order-lists.ts): after a change every caller reads the whole list until the cache has it.",
    "Read the list's version once a second in each isolate instead of once a list (order-lists.ts): a list may then be a second old.",
    "Give keys and usage a database of their own (directory.ts, usage-table.ts), then split both by the first digits of a hash.",
  ],
  databaseBytes: [
    "Delete old days of key_usage, whose primary key begins with the day. The Analytics Engine has single requests for three months besides.",
    "Give keys and usage a database of their own, then split both by the first digits of a hash.",
    "Split the orders by ranges of ids, one database each.",
  ],
  queriesPerRequest: [
    "Know which breaks first: the reading for the cache, which shares the invocation with the answer; past twice as many orders the answer, too.",
    "Set [limits] subrequests in wrangler.toml and try a long list on staging: of D1 Cloudflare says 1,000 on one page, and 10,000 or what is set on another.",
    "Read larger pages: a result of D1's may have 2 MB, of which PAGE_BYTES in order-pages.ts takes 1.2.",
    "Pagination, in v2. To split the orders does not help: the queries are as many.",
  ],
  requestCpuMs: ["Set [limits] cpu_ms in wrangler.toml, to 300000 at most.", "Pagination, in v2."],
  afterAnswerSeconds: [
    "Read several ranges of ids at once (order-list-stream.ts): six queries may be under way, and most of a page's time is the way there and back.",
    "Write each version to R2 from an object's alarm, which has 15 minutes, and send it from there.",
    "Pagination, in v2.",
  ],
  cacheEntryBytes: [
    "Cache the list in parts, one entry for each run of pages (order-list-cache.ts).",
    "Write each version to R2 and send it from there, which costs nothing for what is sent.",
    "Pagination, in v2.",
  ],
  isolateBytes: [
    "Read smaller pages (PAGE_BYTES in order-pages.ts): half the memory for twice the queries.",
    "Bound the lists that an isolate reads at once, and answer 503 with Retry-After beyond (read-ahead.ts).",
  ],
};
