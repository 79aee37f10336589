import { BatchedQuery } from "./db/batched-query.ts";
import { withDeadline } from "./deadline.ts";

/** The parts that requests need. */
const PARTS = ["orders", "keys", "limiter"] as const;
export type Part = (typeof PARTS)[number];

/** Which parts answer. */
export type Health = Readonly<Record<Part, "ok" | "unavailable">>;

/** A request for the health, with its access to the parts. */
export interface HealthRequest {
  /** Asks a part for an answer. A rejection means that the part is unavailable. */
  readonly probe: (part: Part) => Promise<unknown>;
  readonly failed: (part: Part, error: unknown) => void;
  /** Keeps this request alive for others that share its probe. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/** The time that a part has to answer. Shorter than the patience of common monitors. */
export const PROBE_TIMEOUT_MS = 3_000;

/** An isolate repeats an outcome for this long. */
export const REMEMBERED_MS = 5_000;

interface Outcome {
  readonly health: Health;
  readonly fromMs: number;
}

/** The health of the service as one isolate sees it. Requests share a probe and its outcome. */
export class HealthCheck {
  #outcome: Outcome | null = null;
  readonly #shared = new BatchedQuery<null, Health>({
    database: "keys",
    concurrency: 1,
    timeoutMs: PROBE_TIMEOUT_MS,
  });

  async check(request: HealthRequest): Promise<Health> {
    const recall = () => this.#remembered() ?? this.#probe(request);
    // Fails only if the platform ended the request that ran the probe.
    const shared = () =>
      this.#shared
        .read(null, async () => recall(), request.waitUntil)
        .catch(() => allUnavailable());
    return this.#remembered() ?? shared();
  }

  #remembered(): Health | null {
    if (this.#outcome === null) return null;
    const ageMs = Date.now() - this.#outcome.fromMs;
    // A clock that went back makes the outcome old.
    return ageMs >= 0 && ageMs < REMEMBERED_MS ? this.#outcome.health : null;
  }

  async #probe({ probe, failed }: HealthRequest): Promise<Health> {
    const entries = PARTS.map(async (part) => {
      try {
        await withDeadline(probe(part), PROBE_TIMEOUT_MS);
        return [part, "ok"] as const;
      } catch (error) {
        failed(part, error);
        return [part, "unavailable"] as const;
      }
    });
    const health = Object.fromEntries(await Promise.all(entries)) as Health;
    this.#outcome = { health, fromMs: Date.now() };
    return health;
  }
}

function allUnavailable(): Health {
  return { orders: "unavailable", keys: "unavailable", limiter: "unavailable" };
}
