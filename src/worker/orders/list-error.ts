/**
 * The error of a list that cannot begin or end, named by its log event:
 *
 * - `order_list_moved`: its segments are gone. A bulk change or a restore has replaced them since
 *   the manifest was read, or its lease was not renewed for a day.
 * - `order_list_displaced`: another list needed its place.
 * - `order_lists_too_many`: no place has become free within `lineMs`.
 * - `order_list_too_long`: it has more than `maxSegments`.
 */
export class ListError extends Error {
  readonly event: `order_list_${"moved" | "displaced" | "too_long"}` | "order_lists_too_many";

  constructor(event: ListError["event"]) {
    super(`The list cannot be sent: ${event}.`);
    this.event = event;
  }
}
