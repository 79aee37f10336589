import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { PROJECT_ROOT } from "../wrangler.ts";

/** The file with the default thresholds. */
export const DEFAULT_FILE = join(PROJECT_ROOT, "src/operator/metrics/thresholds.json");

/**
 * `npm run metrics -- banned` lists at most this many keys. So the number of banned keys can never
 * be above a threshold of this size.
 */
const MOST_BANNED_KEYS = 50;

const figure = z.number().min(0);

const thresholdsSchema = z.strictObject({
  errorPercent: figure.max(100),
  degradedPercent: figure.max(100),
  p95Ms: figure,
  refusedPercent: figure.max(100),
  bannedKeys: figure.max(MOST_BANNED_KEYS - 1),
  dollarsPerDay: figure,
});

/** The threshold of each measure. A larger value needs the operator's attention. */
export type Thresholds = z.output<typeof thresholdsSchema>;

/**
 * Reads thresholds from a JSON file.
 *
 * @throws an Error for the operator if a field is missing, unknown or wrong. The message names
 *   every such field.
 */
export async function readThresholds(file: string): Promise<Thresholds> {
  const text = await readFile(file, "utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  const parsed = thresholdsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => [...path, message].join(": "));
  throw new Error(`${file}: ${faults.join("; ")}`);
}
