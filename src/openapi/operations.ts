import { cacheControl, headerRefs } from "./headers.ts";
import { orderMethodNotAllowed, preconditionFailed, responseRefs } from "./responses.ts";
import { schemaRef } from "./schemas.ts";

const LIST_EXAMPLE = [
  { id: 1001, petId: 501, quantity: 1, shipDate: "2026-11-20T08:30:00.000Z", complete: false },
  { id: 1008 },
];

const QUOTA_EXAMPLE = {
  keyId: "key_petspetspetspets",
  plan: "pro",
  expiresAt: null,
  windows: [
    { name: "minute", limit: 300, remaining: 288, resetsAt: "2026-11-27T15:20:11.000Z" },
    { name: "day", limit: 10_000, remaining: 9_120, resetsAt: "2026-11-28T09:00:00.000Z" },
  ],
  ban: null,
  retryAfterSeconds: 0,
};

// API consoles send every documented header parameter, filled with "<string>" or the like. So a header
// that would turn such a request into a 412 is documented in words only.

/** The error responses of every operation. */
const ALWAYS_POSSIBLE = [
  "Unauthorized",
  "HttpsRequired",
  "PreconditionFailed",
  "TooManyRequests",
  "InternalError",
  "Unavailable",
] as const;

/** The `paths` of the OpenAPI document, relative to the server's address (docs/api.md, Orders). */
export const paths = {
  "/store/orders": {
    parameters: [{ $ref: "#/components/parameters/X-Request-Id" }],
    get: {
      operationId: "listOrders",
      tags: ["Orders"],
      summary: "List all orders",
      description:
        "Returns every order that was placed and not cancelled, in ascending `id`, as one streamed JSON array, even for a million orders.\n\nA list that is valid JSON is complete, and shows the store at one moment. A list that the service cannot finish, for example because its database does not answer, ends before the closing bracket and is not valid JSON. Repeat the request: the service then reads only the missing parts.\n\nThere is no filtering and no pagination; both come with v2. Query parameters and a request body are ignored. `HEAD` receives the same response as `GET`, without the body. With an `If-Match` that lacks the list's `ETag`, the response is 412.",
      parameters: [
        {
          name: "If-None-Match",
          in: "header",
          description:
            "The `ETag` of the list you have, or `*`. The response is 304 if the list is unchanged.",
          schema: { type: "string" },
        },
      ],
      responses: {
        "200": {
          description: "All orders.",
          headers: headerRefs("ETag", "Cache-Control"),
          content: {
            "application/json": {
              schema: { type: "array", items: schemaRef("Order") },
              example: LIST_EXAMPLE,
            },
          },
        },
        "304": {
          description: "Your list is still current. The request counts like any other.",
          headers: headerRefs("ETag", "Cache-Control"),
        },
        ...responseRefs("MethodNotAllowed", ...ALWAYS_POSSIBLE),
      },
    },
  },
  "/store/orders/{orderId}": {
    parameters: [
      {
        name: "orderId",
        in: "path",
        required: true,
        description:
          "The order to cancel: an int64 in plain decimal. Anything else (`abc`, `1.5`, `007`, `+5`, `-0`) is treated as an unknown order: the response is 404.",
        schema: schemaRef("OrderId"),
        example: 1001,
      },
      { $ref: "#/components/parameters/X-Request-Id" },
    ],
    delete: {
      operationId: "cancelOrder",
      tags: ["Orders"],
      summary: "Cancel an order",
      description:
        "Cancels an order that has not shipped, in one atomic step. Of any number of simultaneous requests for the same order, exactly one receives 204. A cancelled order is removed from the list, and cancelling it again receives 404.\n\nAn order has no tag. So an `If-Match` other than `*`, and `If-None-Match: *` while the order exists, receive 412, and the order is not cancelled.",
      responses: {
        "204": { description: "The order is cancelled.", headers: headerRefs() },
        ...responseRefs("NotFound", "Conflict", ...ALWAYS_POSSIBLE),
        "405": orderMethodNotAllowed(),
        "412": preconditionFailed(
          "Order 1001 was not cancelled. An order has no entity tag: If-Match can only be *, and If-None-Match cannot be *.",
        ),
      },
    },
  },
  "/quota": {
    parameters: [{ $ref: "#/components/parameters/X-Request-Id" }],
    get: {
      operationId: "getQuota",
      tags: ["Quota"],
      summary: "Look at the quota",
      description:
        "Returns what is left in the windows of the key, when they end, and whether the key is banned. This request counts in no window and is no strike. It succeeds even if the windows are full or the key is banned.\n\nThe rate-limit headers have the same values. The response can be up to a second old, because those who look at the same time share it. `HEAD` receives the same response as `GET`, without the body.",
      responses: {
        "200": {
          description: "The quota of the key.",
          headers: { ...headerRefs(), ...cacheControl("no-store") },
          content: { "application/json": { schema: schemaRef("Quota"), example: QUOTA_EXAMPLE } },
        },
        ...responseRefs("MethodNotAllowed", ...ALWAYS_POSSIBLE),
        "412": preconditionFailed(
          "The quota has no entity tag. Repeat the request without If-Match.",
        ),
      },
    },
  },
};
