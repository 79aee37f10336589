import { UnexpectedAnswerError } from "./errors.ts";
import { readWindows } from "./rate-limit-headers.ts";
import { withRetries } from "./retry.ts";
import { type Answer, type Call, QUOTA, send } from "./send.ts";

export interface QuotaWindow {
  /** `minute` or `day`. */
  readonly name: string;
  /** The number of requests that the window admits. */
  readonly limit: number;
  /** Requests left; 0 during a ban. */
  readonly remaining: number;
  /** The end of the window by this machine's clock; `null` if no request has opened it. */
  readonly resetsAt: Date | null;
}

/**
 * What a key may still send. Except for `expiresAt`, all times are by this machine's clock, even if
 * it is wrong: they are never too early, and up to a second and the response time too late.
 */
export interface KeyQuota {
  readonly keyId: string;
  readonly plan: string;
  /** When the key expires, by the service's clock; `null` if never. */
  readonly expiresAt: Date | null;
  readonly windows: readonly QuotaWindow[];
  /** The ban that is in force; `number` counts the bans in a row. */
  readonly ban: { readonly endsAt: Date; readonly number: number } | null;
  /** Seconds from `answeredAt` until a request is admitted; 0 if it would be admitted then. */
  readonly retryAfterSeconds: number;
  /** The time when the response arrived. */
  readonly answeredAt: Date;
}

/** The body of the response. Times are in RFC 3339. */
interface Body extends Omit<KeyQuota, "expiresAt" | "windows" | "ban" | "answeredAt"> {
  readonly expiresAt: string | null;
  readonly windows: readonly (Omit<QuotaWindow, "resetsAt"> & {
    readonly resetsAt: string | null;
  })[];
  readonly ban: { readonly endsAt: string; readonly number: number } | null;
}

/** See `StoreOrdersClient.quota`. */
export function getQuota(call: Call): Promise<KeyQuota> {
  return withRetries(call, async () => {
    const answer = await send(call, "GET", QUOTA, 200);
    const answeredAt = new Date();
    try {
      return toQuota(await readJson(answer), answer.headers, answeredAt);
    } catch (error) {
      if (!(error instanceof SyntaxError || error instanceof TypeError)) throw error;
      const message = "The answer is no quota. Is baseUrl the address of the service?";
      throw new UnexpectedAnswerError(message, answer, { cause: error });
    } finally {
      answer.abort();
    }
  });
}

async function readJson(answer: Answer): Promise<Body> {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const part = await answer.read();
    text += decoder.decode(part, { stream: part !== undefined });
    if (part === undefined) return JSON.parse(text) as Body;
  }
}

/** @throws {TypeError} if a field is missing. */
function toQuota(body: Body, headers: Headers, answeredAt: Date): KeyQuota {
  const { keyId, plan, expiresAt, windows, ban, retryAfterSeconds } = body;
  const aheadMs = clockAheadMs(windows, headers, answeredAt);
  const toDate = (text: string) => new Date(Date.parse(text) + aheadMs);
  return {
    keyId,
    plan,
    expiresAt: expiresAt === null ? null : new Date(expiresAt),
    windows: windows.map(({ name, limit, remaining, resetsAt }) => {
      return { name, limit, remaining, resetsAt: resetsAt === null ? null : toDate(resetsAt) };
    }),
    ban: ban && { endsAt: toDate(ban.endsAt), number: ban.number },
    retryAfterSeconds,
    answeredAt,
  };
}

/**
 * Returns how far this machine's clock is ahead of the service's, rounded up like the seconds in the
 * headers; 0 if no window is open.
 */
function clockAheadMs(windows: Body["windows"], headers: Headers, answeredAt: Date): number {
  for (const { name, resetSeconds } of readWindows(headers)) {
    const resetsAt = windows.find((window) => window.name === name)?.resetsAt;
    if (resetsAt) return answeredAt.getTime() + resetSeconds * 1_000 - Date.parse(resetsAt);
  }
  return 0;
}
