import { formatCount } from "../terminal-text.ts";

/** Prints how many orders a task has done, such as `Sending: 10,000 orders`, every ten seconds. */
export function startProgress(doing: string) {
  let orders = 0;
  const print = () => process.stderr.write(`${doing}: ${formatCount(orders, "order")}\n`);
  const timer = setInterval(print, 10_000).unref();
  return {
    advance: (by: number) => void (orders += by),
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
