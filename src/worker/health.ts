import { BatchedQuery } from "./db/batched-query.ts";
import { withDeadline } from "./deadline.ts";

/** The parts of the service whose state `/healthz` reports. */
const PARTS = ["orders", "keys", "limiter"] as const;
export type Part = (typeof PARTS)[number];

/** The state of each part of the service. */
export type Health = Readonly<Record<Part, "ok" | "unavailable">>;

/** A request to `/healthz`, with its access to the parts of the service. */
export interface HealthRequest {
  /** Calls a part of the service. A rejection means that the part is unavailable. */
  readonly probe: (part: Part) => Promise<unknown>;
  readonly failed: (part: Part, error: unknown) => void;
  /** Keeps this request alive for other requests that share its probe. */
  readonly waitUntil: (promise: Promise<unknown>) => void;
}

/**
 * A part of the service that does not respond within this time counts as unavailable. Common
 * monitors have longer timeouts.
 */
export const PROBE_TIMEOUT_MS = 3_000;

/** An isolate reuses the result of a health probe for this long. */
export const REMEMBERED_MS = 5_000;

interface Outcome {
  readonly health: Health;
  readonly fromMs: number;
}

/** Checks the health of the service for one isolate. Requests share a probe and its result. */
export class HealthCheck {
  #outcome: Outcome | null = null;
  readonly #shared = new BatchedQuery<null, Health>({
    concurrency: 1,
    timeoutMs: PROBE_TIMEOUT_MS,
  });

  async check(request: HealthRequest): Promise<Health> {
    const recall = () => this.#remembered() ?? this.#probe(request);
    // `read` rejects only if the platform ended the request that ran the shared probe. The health
    // is then unknown, so report every part as unavailable.
    const shared = () =>
      this.#shared
        .read(null, async () => recall(), request.waitUntil)
        .catch(() => allUnavailable());
    return this.#remembered() ?? shared();
  }

  #remembered(): Health | null {
    if (this.#outcome === null) return null;
    const ageMs = Date.now() - this.#outcome.fromMs;
    // A negative age means that the clock was set back, so the result's age is unknown.
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
