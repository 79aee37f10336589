import type { Answer } from "./answer.ts";

/** Explains an answer in a sentence. */
export function meaningOf(answer: Answer): string {
  const said = errorIn(answer.body);
  switch (answer.status) {
    case 200:
      return "Here are the orders.";
    case 204:
      return "The order is cancelled. List again, and it is gone.";
    case 304:
      return "The list has not changed. The request still counts.";
    default:
      return said?.message ?? "This page does not know this answer of the service.";
  }
}

/** Explains a 429 to the person who must wait. */
export function waitMeaning(answer: Answer): string {
  if (errorIn(answer.body)?.code === "api_key_banned") {
    return "The key is banned, because it kept sending requests instead of waiting. Requests during the ban change nothing. When the time is over, send one request.";
  }
  return "A window is full. This request was not counted. If you wait until the time is over, the next request is admitted. If you keep sending, the key is banned.";
}

function errorIn(body: string): { code?: string; message?: string } | null {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
