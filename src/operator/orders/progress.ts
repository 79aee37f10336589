import { formatNumber } from "../terminal-text.ts";

/**
 * Prints a line such as `Sending: 10,000 of 40,000 orders, 10 s` on stderr every ten seconds, until
 * disposed. A shorter task prints none.
 *
 * @param total the final number of orders; left out if it is unknown.
 */
export function startProgress(doing: string, total?: number) {
  let orders = 0;
  const startedMs = Date.now();
  const timer = setInterval(() => {
    const of = total === undefined ? "" : ` of ${formatNumber(total)}`;
    const counted = orders === 0 ? "" : ` ${formatNumber(orders)}${of} orders,`;
    process.stderr.write(`${doing}:${counted} ${Math.round((Date.now() - startedMs) / 1_000)} s\n`);
  }, 10_000).unref();
  return {
    advance: (by: number) => void (orders += by),
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
