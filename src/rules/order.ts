import * as z from "zod";
import { INT64_MAX, INT64_MIN } from "./int64.ts";

const INT64_EXPECTED = `expected an integer from ${INT64_MIN} to ${INT64_MAX}`;

export const int64Schema = z
  .bigint(INT64_EXPECTED)
  .min(INT64_MIN, INT64_EXPECTED)
  .max(INT64_MAX, INT64_EXPECTED)
  .meta({
    id: "Int64",
    type: "integer",
    format: "int64",
    description: `A 64-bit signed integer, digit for digit: from ${INT64_MIN} to ${INT64_MAX}. A language whose numbers are doubles must read it as text or as a big integer.`,
  });

const RFC_3339 =
  /^\d{4}-\d{2}-\d{2}[Tt](?<hour>\d{2}):\d{2}:\d{2}(?:\.(?<fraction>\d+))?(?:[Zz]|[+-](?<offsetHour>\d{2}):(?<offsetMinute>\d{2}))$/;

/** The only form in which a ship date is stored and sent: `2026-11-20T08:30:00.000Z`. */
const UTC_MILLISECONDS = /^\d{4}-.{18}Z$/;

/**
 * Parses a ship date in RFC 3339 and converts it to UTC with three decimals (docs/api.md, Orders).
 * Rejects dates that do not exist and fractions of a second finer than milliseconds.
 */
export const shipDateSchema = z
  .string("expected an RFC 3339 date-time")
  .transform((text, context) => {
    const fail = (message: string) => {
      context.addIssue({ code: "custom", message, input: text });
      return z.NEVER;
    };
    const groups = RFC_3339.exec(text)?.groups;
    if (groups === undefined) {
      return fail("expected an RFC 3339 date-time such as 2026-11-20T08:30:00.000Z");
    }
    if (/[1-9]/.test((groups["fraction"] ?? "").slice(3))) {
      return fail("finer than milliseconds, which would be lost");
    }
    if (text.slice(17, 19) === "60") {
      return fail("a leap second, which cannot be stored: use second 59, or the next minute");
    }
    const day = text.slice(0, 10);
    const midnight = new Date(day);
    const dayExists = !Number.isNaN(midnight.getTime()) && midnight.toISOString().startsWith(day);
    const offsetExists =
      Number(groups["offsetHour"] ?? 0) < 24 && Number(groups["offsetMinute"] ?? 0) < 60;
    const instant = new Date(text.toUpperCase());
    if (!dayExists || !offsetExists || groups["hour"] === "24" || Number.isNaN(instant.getTime())) {
      return fail("no such date or time");
    }
    const utc = instant.toISOString();
    return UTC_MILLISECONDS.test(utc) ? utc : fail("outside the years 0000 to 9999 in UTC");
  })
  .meta({
    type: "string",
    format: "date-time",
    pattern: "^\\d{4}-\\d{2}-\\d{2}T\\d{2}:\\d{2}:\\d{2}\\.\\d{3}Z$",
    description: "Expected or actual ship date: RFC 3339 in UTC, always with three decimals.",
    examples: ["2026-11-20T08:30:00.000Z"],
  });

/** An order as the API returns it (docs/api.md, Orders). */
export const orderSchema = z
  .strictObject({
    id: int64Schema.describe("The order's identifier."),
    petId: int64Schema.optional().describe("The animal in the order."),
    quantity: int64Schema.optional().describe("Units ordered."),
    shipDate: shipDateSchema.optional(),
    complete: z
      .boolean("expected true or false")
      .optional()
      .describe("Whether the order has been fulfilled."),
  })
  .meta({
    id: "Order",
    description: "An order. A field that the order lacks is left out, never `null`.",
    examples: [
      {
        id: 1001,
        petId: 501,
        quantity: 1,
        shipDate: "2026-11-20T08:30:00.000Z",
        complete: false,
      },
    ],
  });

/** An order in import and export files. The API does not return its `status`. */
export const orderRecordSchema = orderSchema.extend({
  status: z
    .enum(["pending", "shipped"], 'expected "pending", "shipped" or "cancelled"')
    .default("pending"),
});

export type OrderRecord = z.output<typeof orderRecordSchema>;

const POSITION_EXPECTED = "expected a positive integer below 2^53";

/** A cancelled order in import and export files. */
export const cancelledRecordSchema = orderSchema.extend({
  status: z.literal("cancelled"),
  cancelledAt: shipDateSchema.refine((time) => time >= "1970", "expected a time from 1970 on"),
  /** The id of the API key that cancelled the order. */
  cancelledBy: z
    .string()
    .regex(/^key_[a-z2-7]{16}$/, "expected the id of a key")
    .optional(),
  /** The order of cancellations, and where readers go on (`cancelledOrders`). */
  position: z
    .bigint(POSITION_EXPECTED)
    .min(1n, POSITION_EXPECTED)
    .max(2n ** 53n - 1n, POSITION_EXPECTED)
    .optional(),
});

export type CancelledRecord = z.output<typeof cancelledRecordSchema>;
