import type { Answer } from "./answer.ts";

/** What an answer means, in a plain sentence. */
export function meaningOf(answer: Answer): string {
  const said = errorIn(answer.body);
  switch (answer.status) {
    case 200:
      return "Here are the orders.";
    case 204:
      return "The order is cancelled. List again, and it is gone.";
    case 304:
      return "The list has not changed. The request counted all the same.";
    default:
      return said?.message ?? "The service gave an answer that this page does not know.";
  }
}

/** What a 429 means for whoever has to wait, in a plain sentence. */
export function waitMeaning(answer: Answer): string {
  if (errorIn(answer.body)?.code === "api_key_banned") {
    return "The key is banned: it kept sending after it was told to wait. Sending now changes nothing. When the time is over, send one request.";
  }
  return "A window is full. This request was not counted. Wait until the time is over, and the next one is let in; keep sending instead, and the key gets banned.";
}

function errorIn(body: string): { code?: string; message?: string } | null {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === "object" ? value : null;
  } catch {
    return null;
  }
}
