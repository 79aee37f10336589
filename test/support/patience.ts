/**
 * How long a test waits for an event: a limit for what hangs, not for a slow machine. Shorter than
 * the time limit of tests, so that the message names the event.
 */
export const PATIENCE = { timeout: 600_000, interval: 25 } as const;
