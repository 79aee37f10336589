import { type Bench, listRequest } from "../bench.ts";
import { timeAnswer } from "../http.ts";
import { sendEvery } from "../load.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore } from "../store.ts";
import type { Version } from "../version.ts";

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

interface Figure {
  readonly wholePerSecond: number;
  readonly brokenPerSecond: number;
}

/** A service whose store changes ten times a second while eight readers request the list. */
class BusyStore implements AsyncDisposable {
  readonly #server: Server;
  readonly #key: string;
  /** The number of orders that may be cancelled; their ids are 1 to this number. */
  readonly #cancellable: number;
  #cancelled = 0;

  private constructor(server: Server, key: string, cancellable: number) {
    this.#server = server;
    this.#key = key;
    this.#cancellable = cancellable;
  }

  static async start(version: Version, orders: number): Promise<BusyStore> {
    const store = await version.store(orders);
    const folder = await copyStore(store, "busy");
    const server = await Server.start(await version.service(), { store: folder, hasObjects: true });
    return new BusyStore(server, store.key, Math.floor(orders / 2) - 1);
  }

  /** Measures the rates of complete and of incomplete lists. */
  async measure(): Promise<Figure> {
    const startMs = performance.now();
    const isOver = () => performance.now() - startMs > WARM_UP_MS + COUNTED_MS;
    const lists = { whole: 0, broken: 0 };
    const list = listRequest(this.#server.url, this.#key);
    const readAgainAndAgain = async () => {
      while (!isOver()) {
        const isWhole = await timeAnswer(list).then(
          () => true,
          () => false,
        );
        if (isOver() || performance.now() - startMs < WARM_UP_MS) continue;
        lists[isWhole ? "whole" : "broken"] += 1;
      }
    };
    await Promise.all([
      ...Array.from({ length: READERS }, readAgainAndAgain),
      this.#cancel(isOver),
    ]);
    await this.#server.process.idle();
    const seconds = COUNTED_MS / 1_000;
    return { wholePerSecond: lists.whole / seconds, brokenPerSecond: lists.broken / seconds };
  }

  async #cancel(isOver: () => boolean): Promise<void> {
    const { url, headers = {} } = listRequest(this.#server.url, this.#key);
    const requestAt = () => {
      const id = ((this.#cancelled++ * STRIDE) % this.#cancellable) + 1;
      return { url: `${url}/${id}`, method: "DELETE", headers };
    };
    const answers = await sendEvery(url, CANCEL_EVERY_MS, requestAt, isOver);
    const others = new Set(answers.filter((answer) => answer !== 204));
    if (others.size > 0) throw new Error(`Cancellations were answered ${[...others].join(", ")}.`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
  }
}

/**
 * Compares the rate of complete lists from a store that keeps changing with the baseline commit's
 * rate.
 */
export async function busyList(bench: Bench): Promise<Result[]> {
  const baseline = await bench.baseline();
  if (baseline === null) return [];
  const orders = bench.orders / 10;
  await using today = await BusyStore.start(bench.today, orders);
  await using old = await BusyStore.start(baseline, orders);
  bench.say(`${READERS} readers of ${orders} orders, ten of which are cancelled a second`);
  const figures = await takeTurns(bench.rounds, {
    today: () => today.measure(),
    old: () => old.measure(),
  });
  const whole = (name: keyof typeof figures) =>
    figures[name].map(({ wholePerSecond }) => wholePerSecond);
  const text = (name: keyof typeof figures) => {
    const broken = figures[name].map(({ brokenPerSecond }) => brokenPerSecond);
    return `${medianText(whole(name), "/s")}, ${medianText(broken, "/s broken off")}`;
  };
  return [
    {
      what: `${number(orders)} orders, ten cancelled a second, ${READERS} readers: whole lists, times ${baseline.name}'s`,
      service: text("today"),
      peer: text("old"),
      ratio: spreadOf(ratios(whole("today"), whole("old"))),
      target: { atLeast: 4 },
    },
  ];
}
