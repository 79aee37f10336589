import type { Bench, Version } from "../bench.ts";
import { ratiosOf, takeTurns } from "../compare.ts";
import { listRequest, sendEvery, timeList } from "../load.ts";
import { medianText, number, type Result } from "../report.ts";
import type { Server } from "../server.ts";

const READERS = 8;
const CANCEL_EVERY_MS = 100;
/**
 * Lists that end within this time of a measurement's start are not counted, because the
 * simultaneous start of all readers distorts the rate of these lists.
 */
const WARM_UP_MS = 2_000;
const COUNTED_MS = 8_000;
/** The distance between two successively cancelled ids: a prime, so that the ids are spread. */
const STRIDE = 7_919;

/** The numbers of complete and of incomplete lists per second. */
interface Figure {
  readonly complete: number;
  readonly cutOff: number;
}

/**
 * Compares the rate of complete lists while ten orders a second are cancelled with the baseline
 * commit's rate.
 */
export async function busyList(bench: Bench): Promise<Result[]> {
  const orders = bench.orders / 10;
  const serve = (version: Version) => bench.serve({ version, orders });
  await using today = await serve("today");
  await using baseline = await serve("baseline");
  bench.say(`${READERS} readers of ${orders} orders, ten of which are cancelled a second`);
  const figures = await takeTurns(bench.rounds, {
    today: busyLists(bench, today, orders),
    baseline: busyLists(bench, baseline, orders),
  });
  const rates = (version: Version, name: keyof Figure) =>
    figures[version].map((figure) => figure[name]);
  const text = (version: Version) =>
    `${medianText(rates(version, "complete"), "/s")}, ${medianText(rates(version, "cutOff"), "/s cut off")}`;
  return [
    {
      what: `${number(orders)} orders, ten cancelled a second, ${READERS} readers: rate of complete lists, as a multiple of the baseline's`,
      service: text("today"),
      peer: text("baseline"),
      ratio: ratiosOf(rates("today", "complete"), rates("baseline", "complete")),
      target: { atLeast: 0.9 },
    },
  ];
}

/** Returns a function that measures the rates of complete and of incomplete lists. */
function busyLists(bench: Bench, server: Server, orders: number): () => Promise<Figure> {
  const list = listRequest(server.url, bench.keys.unlimited[0]?.key ?? "");
  /** The ids from 1 to this number are ids of orders. */
  const cancellable = Math.floor(orders / 2) - 1;
  let cancelled = 0;
  const cancellation = () => {
    const id = ((cancelled++ * STRIDE) % cancellable) + 1;
    return { ...list, url: `${list.url}/${id}`, method: "DELETE" } as const;
  };
  return async () => {
    const startMs = performance.now();
    const isOver = () => performance.now() - startMs > WARM_UP_MS + COUNTED_MS;
    const counts = { complete: 0, cutOff: 0 };
    const readAgainAndAgain = async () => {
      while (!isOver()) {
        const end = await timeList(server, list).then(
          () => "complete" as const,
          () => "cutOff" as const,
        );
        if (!isOver() && performance.now() - startMs >= WARM_UP_MS) counts[end] += 1;
      }
    };
    await Promise.all([
      ...Array.from({ length: READERS }, readAgainAndAgain),
      sendEvery(CANCEL_EVERY_MS, [204], cancellation, isOver),
    ]);
    await server.process.idle();
    const seconds = COUNTED_MS / 1_000;
    return { complete: counts.complete / seconds, cutOff: counts.cutOff / seconds };
  };
}
