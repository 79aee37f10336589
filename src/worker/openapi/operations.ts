import { headerRefs } from "./headers.ts";
import { responseRefs } from "./responses.ts";
import { schemaRef } from "./schemas.ts";

const LIST_EXAMPLE = [
  { id: 1001, petId: 501, quantity: 1, shipDate: "2026-11-20T08:30:00.000Z", complete: false },
  { id: 1008 },
];

/** Both operations (docs/api.md, Orders), under paths relative to the server. */
export const paths = {
  "/store/orders": {
    parameters: [{ $ref: "#/components/parameters/X-Request-Id" }],
    get: {
      operationId: "listOrders",
      tags: ["Orders"],
      summary: "List all orders",
      description:
        "Returns every order that was placed and not cancelled, in ascending `id`, as one streamed JSON array, even for a million orders.\n\nA list that parses is the store at one moment after the request came. If an order changes in a part of a long list that the service has not read yet, the list breaks off and does not parse. Repeat the request: the service then reads only the missing parts.\n\nThere is no filtering and no pagination; both come with v2. Query parameters and a request body are ignored. `HEAD` is answered like `GET`, without the body.",
      parameters: [
        {
          name: "If-None-Match",
          in: "header",
          description:
            "The `ETag` of the list you have, or `*`. Answered 304 if the list is unchanged.",
          schema: { type: "string" },
          example: '"b635bf2fd4266e169c4c0e2344af96d9"',
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
        ...responseRefs(
          "Unauthorized",
          "MethodNotAllowed",
          "TooManyRequests",
          "InternalError",
          "Unavailable",
        ),
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
          "The order to cancel: an int64 in plain decimal. Anything else (`abc`, `1.5`, `007`, `+5`, `-0`) is treated as an unknown order and answered 404.",
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
        "Cancels an order that has not shipped, in one atomic step: exactly one of any number of simultaneous requests is answered 204. A cancelled order leaves the list, and cancelling it again is answered 404.",
      responses: {
        "204": { description: "The order is cancelled.", headers: headerRefs() },
        ...responseRefs(
          "Unauthorized",
          "NotFound",
          "MethodNotAllowed",
          "Conflict",
          "TooManyRequests",
          "InternalError",
          "Unavailable",
        ),
      },
    },
  },
};
