import { orAbort, sleep } from "./abort.ts";
import {
  type Limits,
  readRetryAfterSeconds,
  readWindows,
  type WindowQuota,
} from "./rate-limit-headers.ts";

interface OpenWindow extends WindowQuota {
  /**
   * The time when the window ends, in milliseconds of a monotonic clock. It is never too early,
   * because the service rounds `resetSeconds` up, and the response takes time to arrive.
   */
  readonly endsMs: number;
}

type Announcement = Omit<Limits, "answeredAt">;

/** A forecast for several requests, which may have to wait for later windows of a rate limit. */
interface Forecast {
  /** The wait in milliseconds until the rate limits admit the last of the requests. */
  readonly waitMs: number;
  /** The number of requests that the rate limits admit only after `waitMs`. */
  readonly lastRequests: number;
}

/**
 * Decides when a client may send requests, from the rate-limit headers of earlier responses. The
 * pacer reads no clock: callers pass the current time as `nowMs`.
 *
 * The pacer counts the requests in flight, so that concurrent requests never exceed a limit
 * together. Before the first response and after the end of a window, the pacer admits only one
 * request at a time until a response describes the open windows.
 */
export class Pacer {
  readonly #windows = new Map<string, OpenWindow>();
  #underWay = 0;
  /** The time until which `Retry-After` forbids requests. */
  #heldUntilMs = 0;

  /** Returns a new request's wait in milliseconds. `Infinity`: until the next response arrives. */
  waitMs(nowMs: number): number {
    if (nowMs < this.#heldUntilMs) return this.#heldUntilMs - nowMs;
    const open = [...this.#windows.values()].filter(({ endsMs }) => nowMs < endsMs);
    const full = open.filter(({ remaining }) => remaining === 0);
    if (full.length > 0) return Math.max(...full.map(({ endsMs }) => endsMs)) - nowMs;
    const isKnown = open.length > 0 && open.length === this.#windows.size;
    const room = isKnown ? Math.min(...open.map(({ remaining }) => remaining)) : 1;
    return this.#underWay < room ? 0 : Infinity;
  }

  begin(): void {
    this.#underWay += 1;
  }

  /** Records the end of a request. `windows` is empty if no rate-limit headers arrived. */
  end({ windows, retryAfterSeconds }: Announcement, nowMs: number): void {
    this.#underWay -= 1;
    if (retryAfterSeconds !== null) {
      this.#heldUntilMs = Math.max(this.#heldUntilMs, nowMs + retryAfterSeconds * 1_000);
    }
    if (windows.length === 0) {
      // The service may have counted the request, although its response was lost.
      for (const [name, window] of this.#windows) {
        this.#windows.set(name, { ...window, remaining: Math.max(0, window.remaining - 1) });
      }
    }
    for (const window of windows) this.#learn(window, nowMs);
  }

  /** Forecasts how long the rate limits delay the last of several new requests. */
  forecast(requests: number, nowMs: number): Forecast {
    const heldMs = Math.max(0, this.#heldUntilMs - nowMs);
    let slowest: Forecast = { waitMs: heldMs, lastRequests: requests };
    for (const { remaining, limit, lengthSeconds, endsMs } of this.#windows.values()) {
      const isOpen = nowMs < endsMs;
      const later = requests - (isOpen ? remaining : limit);
      if (later <= 0) continue;
      const untilNextMs = isOpen ? endsMs - nowMs : lengthSeconds * 1_000;
      const fullWindows = Math.floor((later - 1) / limit);
      const waitMs = untilNextMs + fullWindows * lengthSeconds * 1_000;
      if (waitMs <= slowest.waitMs) continue;
      slowest = { waitMs, lastRequests: later - fullWindows * limit };
    }
    return slowest;
  }

  #learn(announced: WindowQuota, nowMs: number): void {
    const known = this.#windows.get(announced.name);
    const endsMs = nowMs + announced.resetSeconds * 1_000;
    const differenceMs = known === undefined ? Infinity : endsMs - known.endsMs;
    const halfLengthMs = announced.lengthSeconds * 500;
    // Ignores a response about an earlier window, because responses can arrive out of sequence.
    if (differenceMs < -halfLengthMs) return;
    const isSameWindow =
      known !== undefined && differenceMs <= halfLengthMs && nowMs < known.endsMs;
    this.#windows.set(announced.name, {
      ...announced,
      remaining: isSameWindow
        ? Math.min(announced.remaining, known.remaining)
        : announced.remaining,
      endsMs: isSameWindow ? Math.min(endsMs, known.endsMs) : endsMs,
    });
  }
}

/** Delays the requests of paced calls (`pacing`, `cancelOrders`) until the limits admit them. */
export class Gate {
  readonly pacer = new Pacer();
  /** See `StoreOrdersClient.limits`. */
  limits: Limits | null = null;
  /** A moving average of the response times in milliseconds, over about 20 responses. */
  responseMs = 0;
  #responses = 0;
  #wakers: (() => void)[] = [];

  /** Counts a request as in flight. If `isPaced`, first waits until the limits admit it. */
  async enter(isPaced: boolean, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    while (isPaced) {
      const waitMs = this.pacer.waitMs(performance.now());
      if (waitMs === 0) break;
      if (waitMs < Infinity) await sleep(waitMs, signal);
      else await orAbort(signal, () => new Promise<void>((wake) => this.#wakers.push(wake)));
    }
    this.pacer.begin();
  }

  /** Records that a request ended. Wakes waiting requests. `headers`: `null` without a response. */
  leave(headers: Headers | null, elapsedMs: number): void {
    const received = headers ?? new Headers();
    const windows = readWindows(received);
    const announcement = { windows, retryAfterSeconds: readRetryAfterSeconds(received) };
    this.pacer.end(announcement, performance.now());
    if (headers !== null) {
      this.#responses = Math.min(20, this.#responses + 1);
      this.responseMs += (elapsedMs - this.responseMs) / this.#responses;
    }
    // Keeps the earlier limits if a response, such as a proxy's, has no rate-limit headers.
    if (windows.length > 0) this.limits = { ...announcement, answeredAt: new Date() };
    for (const wake of this.#wakers.splice(0)) wake();
  }
}
