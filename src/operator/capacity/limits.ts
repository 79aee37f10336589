import { LIST_SIZES } from "../../worker/orders/list-sizes.ts";

const D1 = "https://developers.cloudflare.com/d1/platform/limits/";
const D1_SPEED = "https://developers.cloudflare.com/d1/reference/faq/";
const SERVICE = "src/worker/orders";

const PAGINATE = "Paginate, in v2 of the API.";

/**
 * The limits of the Workers Paid plan and of the service. The cheapest remedy of each limit comes
 * first.
 */
export const LIMITS = {
  /**
   * The share of the busiest hour for which the orders database is busy. This share cannot exceed
   * 1, because a D1 database runs one query at a time.
   */
  ordersTime: {
    title: "the orders database's time",
    value: 1,
    source: D1_SPEED,
    remedies: [
      "Ask clients for If-None-Match. A 304 is one small query, however long the list is.",
      "Turn on D1 read replication.",
      "Read the list's version once a second in each isolate. A list is then up to 1 s old.",
    ],
  },
  keysTime: {
    title: "the keys database's time",
    value: 1,
    source: D1_SPEED,
    remedies: [
      "Turn on D1 read replication.",
      "Report usage less often than once an hour.",
      "Split keys and usage over several databases by the hash of the key.",
    ],
  },
  ordersBytes: {
    title: "10 GB in the orders database",
    value: 10e9,
    source: D1,
    remedies: [
      "Purge old cancelled orders.",
      "Split the orders over several databases by ranges of ids.",
    ],
  },
  keysBytes: {
    title: "10 GB in the keys database",
    value: 10e9,
    source: D1,
    remedies: [
      "Delete old days of key_usage.",
      "Split keys and usage over several databases by the hash of the key.",
    ],
  },
  /**
   * A list that is not in memory takes one query for the manifest, and then
   * one query for every four segments. D1 allows 1,000 queries for each request to the Worker.
   */
  segments: {
    title: "29.5 million orders in a list",
    value: LIST_SIZES.maxSegments,
    source: D1,
    remedies: ["Read more segments in one query.", PAGINATE],
  },
  listBytes: {
    title: "40 MiB for lists in an isolate",
    value: LIST_SIZES.underWayBytes,
    source: SERVICE,
    remedies: [
      "Ask clients for If-None-Match and compression. Their downloads then end sooner.",
      PAGINATE,
    ],
  },
};

export type LimitName = keyof typeof LIMITS;
