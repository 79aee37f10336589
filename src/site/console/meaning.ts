import { type Answer, errorIn } from "./answer.ts";

/**
 * Explains a response in a sentence. The sentence for a 429 leaves out the seconds, because the
 * page shows a countdown.
 */
export function meaningOf(answer: Answer): string {
  switch (answer.status) {
    case 200:
      return "Here are the orders.";
    case 204:
      return "The order is cancelled. The next list lacks it.";
    case 304:
      return "The list has not changed. The request still counts.";
    case 429:
      return "The request was refused and not counted.";
    default:
      return errorIn(answer.body)?.message ?? "This page does not know this answer of the service.";
  }
}
