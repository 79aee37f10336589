export type WorkKind = "list" | "cancel" | "limit" | "ban";

/**
 * What the console has under way: at most one operation. A newer operation replaces an older one,
 * whose outcome is then dropped. But a cancellation is not replaced, and nothing is sent twice.
 */
export class Work {
  readonly #onChange: (kind: WorkKind | null) => void;
  #current: { readonly kind: WorkKind; readonly controller: AbortController } | null = null;

  /** @param onChange is called with what is under way now; `null` if nothing is. */
  constructor(onChange: (kind: WorkKind | null) => void) {
    this.#onChange = onChange;
  }

  canStart(kind: WorkKind): boolean {
    const under = this.#current?.kind;
    return under === undefined || (under !== kind && under !== "cancel");
  }

  /** Runs `task` if it can start. Calls `show` with its outcome, unless a newer one replaced it. */
  async start<T>(
    kind: WorkKind,
    task: (signal: AbortSignal) => Promise<T>,
    show: (outcome: T) => void,
  ): Promise<void> {
    if (!this.canStart(kind)) return;
    this.#current?.controller.abort();
    const own = (this.#current = { kind, controller: new AbortController() });
    this.#onChange(kind);
    const outcome = await task(own.controller.signal);
    if (this.#current !== own) return;
    this.#current = null;
    this.#onChange(null);
    show(outcome);
  }

  /** Stops what is under way. Its task is told by its signal, and its outcome is still shown. */
  stop(): void {
    this.#current?.controller.abort();
  }
}
