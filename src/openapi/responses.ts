import { ERROR_STATUS, type ErrorCode } from "../rules/error-codes.ts";
import { componentHeaders, type HeaderName, headerRefs } from "./headers.ts";
import { schemaRef } from "./schemas.ts";

interface ErrorAnswer {
  readonly description: string;
  readonly headers?: readonly HeaderName[];
  /** An example `message` for each error code of this response. */
  readonly messages: Partial<Record<ErrorCode, string>>;
}

/** The error responses, by their names in the OpenAPI document. */
export const ERROR_ANSWERS = {
  Unauthorized: {
    description:
      "The API key is missing, malformed, unknown, expired, revoked or replaced by a newer one. The request counts against the budget of the client's address, and its rate-limit headers describe that budget.",
    headers: ["WWW-Authenticate"],
    messages: {
      unauthorized: "No API key was sent. Send your API key as `Authorization: Bearer <API_KEY>`.",
    },
  },
  HttpsRequired: {
    description:
      "The request came over plain HTTP. It was not performed and counts against nothing: the response is the same with a valid key and without. Use `https://`.",
    messages: {
      https_required:
        "The request came over plain HTTP and was not performed. Use https://, and ask the operator of the service for a new API key if you sent yours.",
    },
  },
  NotFound: {
    description:
      "`order_not_found`: no order has this id, or it was cancelled before. `not_found`: there is no such path, whatever the method.",
    messages: {
      order_not_found: "No order has the id 42. It may have been cancelled before.",
      not_found:
        "There is nothing at this path. Orders are at /v1/store/orders, and the reference is at /.",
    },
  },
  MethodNotAllowed: {
    description: "The path does not have this method.",
    headers: ["Allow"],
    messages: { method_not_allowed: "This method is not possible here. Use GET or HEAD." },
  },
  Conflict: {
    description: "The order has shipped; it is unchanged.",
    messages: {
      order_already_shipped: "Order 1004 has already shipped, so it can no longer be cancelled.",
    },
  },
  PreconditionFailed: {
    description:
      "`If-Match` or `If-None-Match` is false (RFC 9110, section 13). The request was not performed, and nothing was changed.",
    messages: {
      precondition_failed:
        "The list has another entity tag than If-Match requires. Repeat the request without If-Match.",
    },
  },
  TooManyRequests: {
    description:
      "`rate_limit_exceeded`: a window is full, and the request was not counted. `api_key_banned`: the key kept sending after it was told to wait, and is banned for a while. In both cases, wait for the time in `Retry-After`. An address that sent too many requests without a valid key receives `rate_limit_exceeded` as well.",
    headers: ["Retry-After"],
    messages: {
      rate_limit_exceeded:
        "This API key has used its 60 requests per minute. Wait 5 seconds before the next request.",
      api_key_banned:
        "This API key is banned for a while, because it kept sending requests after it was told to wait. Wait 5 seconds before the next request.",
    },
  },
  InternalError: {
    description: "A fault of the service. Report it with the `X-Request-Id`.",
    messages: {
      internal_error:
        "Something went wrong on our side. Please report it with the request id 5326b8b8-ae4f-4a2d-b4e5-b61b76a5b63f.",
    },
  },
  Unavailable: {
    description:
      "The database cannot be reached (for the quota: the limiter), the API key sends more requests at once than can be counted, the service sends too many long lists at the moment, or the store has more orders than one response can list. Repeat the request after the time in `Retry-After`. A cancellation can be repeated safely.",
    headers: ["Retry-After"],
    messages: {
      service_unavailable:
        "The service cannot reach its database at the moment. Repeat the request after the time in Retry-After; a cancellation can be repeated safely.",
    },
  },
} as const satisfies Record<string, ErrorAnswer>;

/** Returns the error codes of an error response, and their common HTTP status. */
export function codesOf({ messages }: ErrorAnswer) {
  const codes = Object.keys(messages) as [ErrorCode, ...ErrorCode[]];
  return { codes, status: ERROR_STATUS[codes[0]] };
}

export function componentResponses(): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(ERROR_ANSWERS).map(([name, answer]) => [name, errorResponse(answer)]),
  );
}

/** Returns the 405 response of an order's path, where `Allow` names `DELETE` instead of `GET`. */
export function orderMethodNotAllowed(): unknown {
  const messages = { method_not_allowed: "This method is not possible here. Use DELETE." };
  const response = errorResponse({ ...ERROR_ANSWERS.MethodNotAllowed, messages });
  const Allow = { ...componentHeaders["Allow"], example: "DELETE" };
  return { ...response, headers: { ...response.headers, Allow } };
}

/** Returns the 412 response of an operation on what has no entity tag. */
export function preconditionFailed(precondition_failed: string): unknown {
  return errorResponse({ ...ERROR_ANSWERS.PreconditionFailed, messages: { precondition_failed } });
}

function errorResponse(answer: ErrorAnswer) {
  const { description, headers = [], messages } = answer;
  const { codes, status } = codesOf(answer);
  const narrowed = {
    properties: {
      code: { type: "string", enum: codes },
      status: { type: "integer", enum: [status] },
    },
    required: ["code", "status"],
  };
  const examples = codes.map((code) => [
    code,
    { summary: code, value: { code, message: messages[code], status } },
  ]);
  return {
    description,
    headers: headerRefs(...headers),
    content: {
      "application/json": {
        schema: { allOf: [schemaRef("Error"), narrowed] },
        examples: Object.fromEntries(examples),
      },
    },
  };
}

/** Returns references to the error responses with these names, by HTTP status. */
export function responseRefs(
  ...names: (keyof typeof ERROR_ANSWERS)[]
): Record<string, { $ref: string }> {
  return Object.fromEntries(
    names.map((name) => [
      codesOf(ERROR_ANSWERS[name]).status,
      { $ref: `#/components/responses/${name}` },
    ]),
  );
}
