import * as z from "zod";
import { ERROR_STATUS } from "../errors.ts";
import { INT64_MAX, INT64_MIN } from "../orders/int64.ts";
import { orderIdSchema, orderSchema } from "../orders/order.ts";

/** JSON Schema 2020-12, as OpenAPI 3.1 uses it. Integers beyond 2^53 are bigints. */
export type JsonSchema = Readonly<Record<string, unknown>>;

const errorSchema = z
  .strictObject({
    code: z
      .literal([...new Set(Object.keys(ERROR_STATUS))])
      .describe("What went wrong, for programs: it never changes its meaning."),
    message: z.string().describe("What went wrong and what to do next, for people."),
    status: z
      .literal([...new Set(Object.values(ERROR_STATUS))])
      .meta({ type: "integer", description: "The status of the answer." }),
  })
  .meta({ id: "Error", description: "The body of every answer from 400 on, and nothing else." });

/**
 * The schemas that the service validates with, each under the id that its `meta` gives it, and the
 * one of its errors.
 */
export function componentSchemas(): Record<string, JsonSchema> {
  const registry = z.registry<{ id?: string | undefined }>();
  for (const schema of [orderSchema, orderIdSchema.out, errorSchema]) {
    registry.add(schema, z.globalRegistry.get(schema) ?? {});
  }
  const { schemas } = z.toJSONSchema(registry, {
    uri: (id) => `#/components/schemas/${id}`,
    unrepresentable: "any", // bigints and transforms say in their `meta` what they are in JSON
  });
  const components = Object.fromEntries(
    Object.entries(schemas).map(([name, { $schema: _schema, $id: _id, ...schema }]) => [
      name,
      schema,
    ]),
  );
  // zod has no way to write bounds that are exact beyond 2^53.
  return {
    ...components,
    Int64: { ...components["Int64"], minimum: INT64_MIN, maximum: INT64_MAX },
  };
}

/** A reference to one of those. */
export function schemaRef(name: "Order" | "Int64" | "Error"): JsonSchema {
  return { $ref: `#/components/schemas/${name}` };
}
