import { errorIn, type Outcome } from "./request.ts";
import type { OrderList } from "./order-list.ts";
import { readRetryAfterSeconds } from "../../client/rate-limit-headers.ts";

/** Everything that a panel shows of an outcome, and of nothing else. */
export type View = ReturnType<typeof viewOf>;

/** @param list the list in the response, if it should have one. */
export function viewOf(outcome: Outcome, list: OrderList | null) {
  const received = outcome.kind === "response" ? outcome.received : null;
  const isBroken = list !== null && received?.status === 200 && !list.isWhole;
  const isError = received !== null && received.status >= 400;
  const seconds = isError ? readRetryAfterSeconds(received.headers) : null;
  return {
    isGood: received !== null && !isError && !isBroken,
    line: lineOf(outcome),
    /** Markdown whose only markup is inline code. */
    meaning: isBroken
      ? "The list broke off before its end. Send the request again."
      : meaningOf(outcome),
    /** The response as it was sent; `null` if there is none. */
    received,
    /** The time before which the request should not be repeated; `null` if there is none. */
    waitEndMs: received && seconds !== null ? received.receivedMs + seconds * 1_000 : null,
  };
}

/** Returns the parts of the status line. */
function lineOf(outcome: Outcome): string[] {
  if (outcome.kind === "unsent") return ["Not sent"];
  const { request } = outcome.kind === "response" ? outcome.received : outcome;
  const sent = `${request.method} ${request.path}`;
  if (outcome.kind === "stopped") return ["Stopped", sent];
  if (outcome.kind === "failure") return ["No answer", sent];
  const { status, statusText, tookMs } = outcome.received;
  const took = Math.max(1, Math.round(tookMs)).toLocaleString("en");
  return [`${status} ${statusText}`.trim(), sent, `${took} ms`];
}

/** Explains an outcome. The text for 429 names no seconds, because the page shows a countdown. */
function meaningOf(outcome: Outcome): string {
  if (outcome.kind === "unsent") return outcome.problem;
  if (outcome.kind !== "response") {
    const meaning =
      outcome.kind === "stopped"
        ? "Nobody waits for the answer."
        : `No complete answer came (${outcome.reason}). Is the service running?`;
    return outcome.request.method === "GET" ? meaning : `${meaning} ${DOUBT}`;
  }
  const { status } = outcome.received;
  const error = errorIn(outcome.received);
  if (status === 200) return "";
  if (status === 204) return "The order is cancelled. The next list lacks it.";
  if (status === 304) return "The list has not changed. The request still counts.";
  if (status !== 429) return error?.message ?? "This page does not know this answer.";
  return error?.code === "api_key_banned"
    ? "The key kept sending instead of waiting. Requests during the ban change nothing."
    : "A window is full. The request was refused and not counted. Keep sending, and the key is banned.";
}

const DOUBT =
  "The order may or may not be cancelled: list the orders, or cancel it again. An order that is already cancelled is answered 404.";

/** The state of an order in the list after its cancellation was tried. */
export interface RowState {
  /** The class of the row; empty if the order can still be cancelled. */
  readonly settled: "" | "cancelled" | "order_already_shipped" | "order_not_found";
  readonly note: string;
}

export function rowStateOf(outcome: Outcome): RowState {
  if (outcome.kind === "unsent") return { settled: "", note: "Not sent" };
  if (outcome.kind !== "response") return { settled: "", note: "No answer: perhaps cancelled" };
  const { status } = outcome.received;
  if (status === 204) return { settled: "cancelled", note: "Cancelled" };
  const code = errorIn(outcome.received)?.code;
  if (code === "order_already_shipped") return { settled: code, note: "Has shipped" };
  if (code === "order_not_found") return { settled: code, note: "Is gone" };
  return { settled: "", note: `${status}: ${status < 500 ? "not" : "perhaps"} cancelled` };
}

/** Returns the words above the orders. Orders that are cancelled or gone no longer count. */
export function countText(total: number, gone: number, rows: number, isFinding: boolean): string {
  if (total === 0) return "The store has no orders.";
  const left = total - gone;
  const count = `${left.toLocaleString("en")} ${left === 1 ? "order" : "orders"}.`;
  if (isFinding) return rows === 0 ? `No order in this list has this id. ${count}` : count;
  return rows < total ? `${count} Here are the first ${rows}; find others by id.` : count;
}

/** Returns the seconds to count down at a time, rounded up; none is negative, and no end is `NaN`. */
export function secondsLeft(endMs: number, nowMs: number): number {
  return Math.max(0, Math.ceil((endMs - nowMs) / 1_000));
}

/** Formats a duration such as `0:47`, `12:05` or `23:59:59`. */
export function clock(seconds: number): string {
  const twoDigits = (value: number) => String(value).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}:${twoDigits(seconds % 60)}`;
  return `${Math.floor(minutes / 60)}:${twoDigits(minutes % 60)}:${twoDigits(seconds % 60)}`;
}
