import { type Answer, codeOf, errorIn, type Outcome } from "./answer.ts";
import { isWholeList } from "./order-list.ts";
import { readRetryAfterSeconds } from "../../client/rate-limit-headers.ts";

/** The page shows only this much of a body. Longer bodies can be downloaded. */
export const SHOWN_CHARACTERS = 20_000;

/** Everything that the console shows of the newest outcome, and of nothing else. */
export type View = ReturnType<typeof viewOf>;

export function viewOf(outcome: Outcome) {
  const answer = outcome.kind === "answer" ? outcome.answer : null;
  const seconds = answer?.status === 429 ? readRetryAfterSeconds(answer.headers) : null;
  const isBan = answer !== null && codeOf(answer) === "api_key_banned";
  return {
    isGood: answer !== null && answer.status < 400,
    line: lineOf(outcome),
    meaning: meaningOf(outcome),
    /** The response as it was sent; `null` if there is none. */
    sent: answer,
    wait: answer && seconds !== null ? { isBan, endMs: answer.receivedMs + seconds * 1_000 } : null,
  };
}

/** Returns the parts of the status line. */
function lineOf(outcome: Outcome): string[] {
  if (outcome.kind === "unsent") return ["Not sent"];
  const { request } = outcome.kind === "answer" ? outcome.answer : outcome;
  const sent = `${request.method} ${request.path}`;
  if (outcome.kind !== "answer")
    return [outcome.kind === "stopped" ? "Stopped" : "No answer", sent];
  const { status, statusText, tookMs } = outcome.answer;
  const took = Math.max(1, Math.round(tookMs)).toLocaleString("en");
  return [`${status} ${statusText}`.trim(), sent, `${took} ms`];
}

/** Explains an outcome. The text for 429 names no seconds, because the page shows a countdown. */
function meaningOf(outcome: Outcome): string {
  if (outcome.kind === "unsent") return outcome.problem;
  if (outcome.kind !== "answer") {
    const meaning =
      outcome.kind === "stopped"
        ? "Nobody waits for the answer."
        : `No complete answer came (${outcome.reason}). Is the service running?`;
    return outcome.request.method === "GET" ? meaning : `${meaning} ${DOUBT}`;
  }
  const { status, body } = outcome.answer;
  if (status === 200 && !isWholeList(body)) {
    return "The list broke off before its end. List the orders again.";
  }
  if (status === 200) {
    return /^\s*\[\s*\]/.test(body) ? "The store has no orders." : "Here are the orders.";
  }
  if (status === 204) return "The order is cancelled. The next list lacks it.";
  if (status === 304) return "The list has not changed. The request still counts.";
  if (status === 429) return "The request was refused and not counted.";
  return errorIn(body)?.message ?? "This page does not know this answer of the service.";
}

const DOUBT =
  "The order may or may not be cancelled: list the orders, or cancel it again. An order that is already cancelled is answered 404.";

/** The state of an order in the table after its cancellation was tried. */
export interface RowState {
  /** The class of the row; empty if the order can still be cancelled. */
  readonly settled: "" | "cancelled" | "order_already_shipped" | "order_not_found";
  readonly note: string;
}

export function rowStateOf(outcome: Outcome): RowState {
  if (outcome.kind === "unsent") return { settled: "", note: "Not sent" };
  if (outcome.kind !== "answer") return { settled: "", note: "No answer: perhaps cancelled" };
  const { status } = outcome.answer;
  if (status === 204) return { settled: "cancelled", note: "Cancelled" };
  const code = codeOf(outcome.answer);
  if (code === "order_already_shipped") return { settled: code, note: "Has shipped" };
  if (code === "order_not_found") return { settled: code, note: "Is gone" };
  return { settled: "", note: `${status}: ${status < 500 ? "not" : "perhaps"} cancelled` };
}

/** Returns the words above the table. Orders that are cancelled or gone no longer count. */
export function countText(total: number, gone: number, rows: number, isFinding: boolean): string {
  const left = total - gone;
  const count = `${left.toLocaleString("en")} ${left === 1 ? "order" : "orders"}.`;
  if (isFinding) return rows === 0 ? `No order in this list has this id. ${count}` : count;
  return rows < total ? `${count} The table shows the first ${rows}; find others by id.` : count;
}

export type Quota = NonNullable<ReturnType<typeof quotaOf>>;

/** Reads what the meters show of an answer; `null` if it tells of no windows. */
export function quotaOf(answer: Answer) {
  const windows = readWindows(answer.headers);
  if (windows.length === 0) return null;
  const subject =
    answer.status === 401
      ? "This is the budget of your address for requests without a valid key."
      : "";
  // During a ban, the headers say nothing of the windows.
  const isBan = codeOf(answer) === "api_key_banned";
  return { windows, receivedMs: answer.receivedMs, isBan, subject };
}

/** Reads both headers as this service spells them. The client package reads every spelling. */
function readWindows(headers: Headers) {
  const policy = headers.get("RateLimit-Policy") ?? "";
  const windows = headers.get("RateLimit")?.matchAll(/"(\w+)";r=(\d+);t=(\d+)/g) ?? [];
  return Array.from(windows, ([, name = "", remaining, resetSeconds]) => ({
    name,
    limit: Number(new RegExp(`"${name}";q=(\\d+)`).exec(policy)?.[1] ?? 0),
    remaining: Number(remaining),
    resetSeconds: Number(resetSeconds),
  }));
}

/** A meter shows a warning if at most this share of a window's requests is left. */
const LOW_SHARE = 0.2;

/** Returns the meters at a time. After a window ends, its whole limit is left. */
export function metersAt({ windows, receivedMs, isBan }: Quota, nowMs: number) {
  return windows.map(({ name, limit, remaining, resetSeconds }) => {
    const seconds = Math.max(0, resetSeconds - Math.floor((nowMs - receivedMs) / 1_000));
    const total = limit.toLocaleString("en");
    if (isBan) {
      const note = seconds > 0 ? "nothing until the ban ends" : "known after the next answer";
      const level = seconds > 0 ? "none" : "unknown";
      return { name, limit, left: 0, level, figure: `– of ${total}`, note };
    }
    const left = seconds > 0 ? remaining : limit;
    const level = left === 0 ? "none" : left <= limit * LOW_SHARE ? "low" : "plenty";
    const note =
      seconds === 0 ? "full again" : left === limit ? "all left" : `back in ${duration(seconds)}`;
    return { name, limit, left, level, figure: `${left.toLocaleString("en")} of ${total}`, note };
  });
}

/** Formats a duration such as `59 s`, `12 min` or `23 h 59 min`. */
export function duration(seconds: number): string {
  if (seconds < 120) return `${seconds} s`;
  const minutes = Math.ceil(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const LIMIT = {
  title: "Limit reached",
  meaning:
    "A window is full. Wait, and the next request is admitted. Keep sending, and the key is banned.",
  overTitle: "The wait is over",
  over: "The next request is admitted.",
};

const BAN = {
  title: "Key banned",
  meaning: "The key kept sending instead of waiting. Requests during the ban change nothing.",
  overTitle: "The ban is over",
  over: "Send one request.",
};

/** What the countdown shows at a time. */
export function waitAt({ isBan, endMs }: NonNullable<View["wait"]>, nowMs: number) {
  const seconds = Math.max(0, Math.ceil((endMs - nowMs) / 1_000));
  const { title, meaning, overTitle, over } = isBan ? BAN : LIMIT;
  return seconds > 0
    ? { look: isBan ? "ban" : "limit", title, time: clock(seconds), meaning }
    : { look: "over", title: overTitle, time: clock(0), meaning: over };
}

/** Formats a duration such as `0:47`, `12:05` or `23:59:59`. */
export function clock(seconds: number): string {
  const twoDigits = (value: number) => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${twoDigits(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${twoDigits(minutes % 60)}:${twoDigits(seconds % 60)}`;
}
