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
  /** The number of the client's own requests in the window that were answered. */
  readonly answered: number;
}

type Announcement = Omit<Limits, "answeredAt">;

/** The service answers a look at the quota with what it knew at most this long before. */
const LOOK_AGE_MS = 1_000;

/** What one response said, with what is needed to tell whether a later response replaces it. */
interface Heard {
  /** The number of responses that had arrived, this one included. */
  readonly order: number;
  /** The time of arrival in milliseconds of a monotonic clock. */
  readonly atMs: number;
  readonly windows: readonly OpenWindow[];
  /** The time until which `Retry-After` forbids requests; the arrival if it is absent. */
  readonly heldUntilMs: number;
}

/**
 * Decides when a client may send requests, from the rate-limit headers of earlier responses. The
 * pacer reads no clock: callers pass the current time as `nowMs`.
 *
 * The pacer counts the requests in flight, so that concurrent requests never exceed a limit
 * together. Before the first response and after the end of a window, the pacer admits only one
 * request at a time until a response describes the open windows.
 *
 * The newest response decides, even if it shows more room than an earlier one: the operator may
 * have reset the key, raised its limits or lifted a ban. A response is certainly newer than those
 * that had arrived when its request was sent. Of responses to requests that ran at the same time,
 * nobody knows which is newer, so that the more cautious values count.
 */
export class Pacer {
  /** The responses that no later response has replaced: about as many as run at the same time. */
  #heard: readonly Heard[] = [];
  #arrivals = 0;
  #underWay = 0;
  /** The combination of `#heard`. */
  #windows = new Map<string, OpenWindow>();
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

  /** Returns how long `Retry-After` still forbids requests, in milliseconds. */
  heldMs(nowMs: number): number {
    return Math.max(0, this.#heldUntilMs - nowMs);
  }

  /** Counts a request as in flight. Returns its ticket for `end`. */
  begin(): number {
    this.#underWay += 1;
    return this.#arrivals;
  }

  /**
   * Records the end of a request. `windows` is empty if the response does not describe the key's
   * windows, or if no response arrived.
   */
  end(ticket: number, { windows, retryAfterSeconds }: Announcement, nowMs: number): void {
    this.#underWay -= 1;
    const heldUntilMs = nowMs + (retryAfterSeconds ?? 0) * 1_000;
    if (windows.length === 0) {
      // The service may have counted the request, although its response was lost.
      const left = [...this.#windows.values()].map((window) => ({
        ...window,
        remaining: Math.max(0, window.remaining - 1),
      }));
      this.#hear([], left, Math.max(this.#heldUntilMs, heldUntilMs), nowMs);
    } else {
      const others = this.#heard.filter((heard) => heard.order > ticket);
      this.#hear(others, this.#open(windows, nowMs, 1), heldUntilMs, nowMs);
    }
  }

  /** Records the response to a look at the quota, which counts nothing and was sent at `sentMs`. */
  look({ windows }: Announcement, sentMs: number, nowMs: number): void {
    if (windows.length === 0) return;
    const others = this.#heard.filter(({ atMs }) => atMs > sentMs - LOOK_AGE_MS);
    this.#hear(others, this.#open(windows, nowMs, 0), nowMs, nowMs);
  }

  /** Returns the windows of a response, which answers one counted request or, for a look, none. */
  #open(windows: readonly WindowQuota[], nowMs: number, answered: 0 | 1): OpenWindow[] {
    return windows.map((window) => {
      const opened = { ...window, endsMs: nowMs + window.resetSeconds * 1_000, answered };
      const known = this.#windows.get(window.name);
      if (known === undefined || laterMs(known, opened) !== 0) return opened;
      return { ...opened, answered: answered + known.answered };
    });
  }

  /** Adds a response to those that it does not replace. */
  #hear(others: readonly Heard[], open: readonly OpenWindow[], untilMs: number, atMs: number) {
    this.#arrivals += 1;
    const order = this.#arrivals;
    this.#heard = [...others, { order, atMs, windows: open, heldUntilMs: untilMs }];
    this.#windows = new Map();
    for (const { windows: heard } of this.#heard) {
      for (const window of heard) {
        const known = this.#windows.get(window.name);
        this.#windows.set(window.name, known ? moreCautious(known, window) : window);
      }
    }
    this.#heldUntilMs = Math.max(...this.#heard.map((heard) => heard.heldUntilMs));
  }

  /**
   * Forecasts the wait in milliseconds until the rate limits admit the last of several requests, those
   * in flight included, and how many of them are admitted only then.
   */
  forecast(requests: number, nowMs: number): { waitMs: number; lastRequests: number } {
    let slowest = { waitMs: this.heldMs(nowMs), lastRequests: requests };
    const inFlight = this.#underWay;
    for (const { remaining, limit, lengthSeconds, endsMs, answered } of this.#windows.values()) {
      const isOpen = nowMs < endsMs;
      // Nobody knows which requests in flight are counted already in what remains.
      const room = isOpen ? Math.min(remaining, limit - answered - inFlight) : limit - inFlight;
      const later = requests - inFlight - Math.max(0, room);
      if (later <= 0) continue;
      const untilNextMs = isOpen ? endsMs - nowMs : lengthSeconds * 1_000;
      const fullWindows = Math.floor((later - 1) / limit);
      const waitMs = untilNextMs + fullWindows * lengthSeconds * 1_000;
      if (waitMs <= slowest.waitMs) continue;
      slowest = { waitMs, lastRequests: later - fullWindows * limit };
    }
    return slowest;
  }
}

/** Returns how much later a window ends than another one; 0 if they are the same. */
function laterMs(known: OpenWindow, { endsMs, lengthSeconds }: OpenWindow): number {
  const differenceMs = endsMs - known.endsMs;
  return Math.abs(differenceMs) > lengthSeconds * 500 ? differenceMs : 0;
}

/** Combines two descriptions of one limit, of which nobody knows which is newer. */
function moreCautious(known: OpenWindow, arrived: OpenWindow): OpenWindow {
  const later = laterMs(known, arrived);
  // Ignores a response about an earlier window, because responses can arrive out of sequence.
  if (later !== 0) return later > 0 ? arrived : known;
  return {
    ...arrived,
    answered: Math.max(arrived.answered, known.answered),
    remaining: Math.min(arrived.remaining, known.remaining),
    endsMs: Math.min(arrived.endsMs, known.endsMs),
  };
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

  /**
   * Counts a request as in flight, and returns its ticket for `leave`. If `isPaced`, first waits
   * until the limits admit the request.
   */
  async enter(isPaced: boolean, signal: AbortSignal | undefined): Promise<number> {
    signal?.throwIfAborted();
    const waitMs = (): number => (isPaced ? this.pacer.waitMs(performance.now()) : 0);
    for (let ms = waitMs(); ms > 0; ms = waitMs()) await this.#waitForNews(ms, signal);
    // No other request may begin between the last look and this line, so nothing is awaited here.
    return this.pacer.begin();
  }

  /** Waits until `Retry-After` no longer forbids requests, or until a newer response lifts it. */
  async waitWhileHeld(signal: AbortSignal | undefined): Promise<void> {
    const heldMs = (): number => this.pacer.heldMs(performance.now());
    for (let ms = heldMs(); ms > 0; ms = heldMs()) await this.#waitForNews(ms, signal);
  }

  /**
   * Records that a request ended, without a response if `undefined`. Wakes waiting requests.
   *
   * @param ticket `null` if the request was a look at the quota.
   */
  leave(ticket: number | null, response: Response | undefined, elapsedMs: number): void {
    const { status, headers } = response ?? { status: 0, headers: new Headers() };
    const windows = readWindows(headers);
    const retryAfterSeconds = readRetryAfterSeconds(headers);
    // The service sends these before it may know the key: they describe the address instead.
    const ofKey = [401, 403].includes(status) || status >= 500 ? [] : windows;
    const said = { windows: ofKey, retryAfterSeconds };
    const nowMs = performance.now();
    if (ticket === null) this.pacer.look(said, nowMs - elapsedMs, nowMs);
    else this.pacer.end(ticket, said, nowMs);
    if (response !== undefined) {
      this.#responses = Math.min(20, this.#responses + 1);
      this.responseMs += (elapsedMs - this.responseMs) / this.#responses;
    }
    // Keeps the earlier limits if a response, such as a proxy's, has no rate-limit headers.
    if (windows.length > 0) this.limits = { windows, retryAfterSeconds, answeredAt: new Date() };
    for (const wake of this.#wakers.splice(0)) wake();
  }

  /** Waits `ms`, or until a request ends if that is earlier. If the signal aborts, throws. */
  async #waitForNews(ms: number, signal: AbortSignal | undefined): Promise<void> {
    const timer = new AbortController();
    const waits = [new Promise<void>((wake) => this.#wakers.push(wake))];
    if (ms < Infinity) waits.push(sleep(ms, timer.signal).catch(() => undefined));
    await orAbort(signal, () => Promise.race(waits)).finally(() => timer.abort());
  }
}
