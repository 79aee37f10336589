import * as z from "zod";
import { ERROR_STATUS } from "../rules/error-codes.ts";
import { CANONICAL_DECIMAL, INT64_MAX, INT64_MIN } from "../rules/int64.ts";
import { MAX_LIMIT, PLANS } from "../rules/limits/plans.ts";
import { WINDOW_NAMES } from "../rules/limits/windows.ts";
import { int64Schema, orderSchema } from "../rules/order.ts";

/** A JSON Schema (2020-12), as OpenAPI 3.1 uses it. Integers above 2^53 are bigints. */
type JsonSchema = Readonly<Record<string, unknown>>;

const errorSchema = z
  .strictObject({
    code: z
      .literal([...new Set(Object.keys(ERROR_STATUS))])
      .describe("What went wrong, for programs. A code never changes its meaning."),
    message: z.string().describe("What went wrong and what to do next, for people."),
    status: z
      .literal([...new Set(Object.values(ERROR_STATUS))])
      .meta({ type: "integer", description: "The HTTP status of the response." }),
  })
  .meta({ id: "Error", description: "The body of every error response." });

/** An order in a response. Marks no field as required, as agreed, although each order has an `id`. */
const listedOrderSchema = orderSchema.partial().meta({
  ...z.globalRegistry.get(orderSchema),
  description:
    "An order. Every order has an `id`; any other field that the order lacks is left out, never `null`.",
});

const dateTime = z.iso.datetime({ precision: 3 }).meta({ pattern: undefined });

const quotaWindowSchema = z
  .strictObject({
    name: z.enum(WINDOW_NAMES).describe("The name of the window, as in `RateLimit`."),
    limit: z.int().min(1).max(MAX_LIMIT).describe("The number of requests that it admits."),
    remaining: z.int().min(0).max(MAX_LIMIT).describe("Requests left in the window."),
    resetsAt: dateTime
      .nullable()
      .describe("The end of the window; `null` if no request has opened it."),
  })
  .meta({ id: "QuotaWindow", description: "What is left in one window." });

const banSchema = z
  .strictObject({
    endsAt: dateTime.describe("The end of the ban."),
    number: z.int().min(1).describe("The number of bans in a row, including this one."),
  })
  .meta({ id: "Ban", description: "A temporary ban of the key." });

const quotaSchema = z
  .strictObject({
    keyId: z.string().describe("The id of the key. It is no secret."),
    plan: z.enum(PLANS).describe("The plan of the key."),
    expiresAt: dateTime.nullable().describe("When the key expires; `null` if never."),
    windows: z
      .array(quotaWindowSchema)
      .describe("The windows `minute` and `day`. During a ban, nothing is left in either."),
    ban: banSchema.nullable().describe("The ban that is in force; `null` if there is none."),
    retryAfterSeconds: z
      .int()
      .min(0)
      .describe("The `Retry-After` of a 429 at this moment; 0 if a request would be admitted."),
  })
  .meta({ id: "Quota", description: "What an API key may still send." });

/** Returns `components.schemas`. The name of each schema is the id in its `meta`. */
export function componentSchemas(): Record<string, JsonSchema> {
  const registry = z.registry<{ id?: string | undefined }>();
  const quota = [quotaSchema, quotaWindowSchema, banSchema];
  for (const schema of [listedOrderSchema, int64Schema, errorSchema, ...quota]) {
    registry.add(schema, z.globalRegistry.get(schema) ?? {});
  }
  const { schemas } = z.toJSONSchema(registry, {
    uri: (id) => `#/components/schemas/${id}`,
    unrepresentable: "any", // The `meta` of bigints and transforms names their JSON type.
  });
  const components = Object.fromEntries(
    // Allows further fields, because fields may be added to responses within a version.
    Object.entries(schemas).map(
      ([name, { $schema: _schema, $id: _id, additionalProperties: _closed, ...schema }]) => [
        name,
        schema,
      ],
    ),
  );
  // zod cannot represent exact bounds above 2^53.
  const bounds = { minimum: INT64_MIN, maximum: INT64_MAX };
  return {
    ...components,
    Int64: { ...components["Int64"], ...bounds },
    OrderId: {
      // Swagger UI cannot send a parameter whose `type` is an array.
      anyOf: [
        { type: "integer", format: "int64", ...bounds },
        { type: "string", pattern: CANONICAL_DECIMAL.source },
      ],
      description:
        "An int64 in plain decimal, as an integer or as text. Use text or a big integer in a language whose numbers are doubles.",
    },
  };
}

export function schemaRef(name: "Order" | "OrderId" | "Quota" | "Error"): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}
