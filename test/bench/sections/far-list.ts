import type { Bench, Version } from "../bench.ts";
import { listRequest, type ListTimes, type Request, send, sendEvery, timeList } from "../load.ts";
import { medianText, number, type Table } from "../report.ts";
import type { Server } from "../server.ts";
import { FAR_MS, NEAR, setDelays } from "./distance.ts";

const CANCEL_EVERY_MS = 100;
const BUSY_MS = 30_000;
/** The distance between two successively cancelled ids: a prime, so that the ids are spread. */
const STRIDE = 7_919;

/**
 * Measures the largest list in fresh isolates whose orders database is near and far away, and
 * counts the lists that are cut off while ten orders a second are cancelled.
 */
export async function farList(bench: Bench): Promise<Table> {
  const rows: string[][] = [];
  for (const version of ["today", "baseline"] as const) {
    const lists: Record<"near" | "far", ListTimes[]> = { near: [], far: [] };
    for (let round = 0; round < bench.rounds; round += 1) {
      for (const [place, delays] of Object.entries(PLACES)) {
        bench.say(`${version}: a cold list, ${place}`);
        await using server = await serve(bench, version, delays);
        lists[place as keyof typeof PLACES].push(await timeList(server, listOf(bench, server)));
        await server.process.idle();
      }
    }
    bench.say(`${version}: lists for ${BUSY_MS / 1_000} s while orders are cancelled`);
    const { whole, cutOff } = await busyLists(bench, version);
    const text = (place: keyof typeof PLACES, name: keyof ListTimes) =>
      medianText(
        lists[place].map((times) => times[name]),
        "ms",
      );
    rows.push([
      version,
      `${text("near", "totalMs")}, first byte ${text("near", "firstByteMs")}`,
      `${text("far", "totalMs")}, first byte ${text("far", "firstByteMs")}`,
      `${cutOff} of ${whole + cutOff}`,
    ]);
  }
  const head = [
    "",
    "cold, near",
    `cold, ${FAR_MS} ms away`,
    "cut off, far, ten cancelled a second",
  ];
  return { head: [`${number(bench.orders)} orders`, ...head.slice(1)], rows };
}

const PLACES = { near: NEAR, far: { ...NEAR, orders: FAR_MS } };

/** Serves the largest store. A cancellation has loaded the key and opened the database. */
async function serve(bench: Bench, version: Version, delays: typeof NEAR): Promise<Server> {
  const { orders } = bench;
  const server = await bench.serve({ worker: "observed/delayed-service", version, orders });
  await send(cancellation(listOf(bench, server), -1), 404);
  await setDelays(server, delays);
  return server;
}

function listOf(bench: Bench, { url }: Server): Request {
  return listRequest(url, bench.keys.unlimited[0]?.key ?? "");
}

function cancellation(list: Request, id: number): Request {
  return { ...list, url: `${list.url}/${id}`, method: "DELETE" };
}

/** Reads one list after another from one fresh isolate, and counts whole and incomplete lists. */
async function busyLists(bench: Bench, version: Version) {
  await using server = await serve(bench, version, PLACES.far);
  const list = listOf(bench, server);
  const startMs = performance.now();
  const isOver = () => performance.now() - startMs > BUSY_MS;
  /** The ids from 1 to this number are ids of orders. */
  const cancellable = Math.floor(bench.orders / 2) - 1;
  const counts = { whole: 0, cutOff: 0 };
  const readLists = async () => {
    while (!isOver()) {
      const end = await timeList(server, list).then(
        () => "whole" as const,
        () => "cutOff" as const,
      );
      counts[end] += 1;
    }
  };
  const idAt = (index: number) => ((index * STRIDE) % cancellable) + 1;
  await Promise.all([
    readLists(),
    sendEvery(CANCEL_EVERY_MS, [204], (index) => cancellation(list, idAt(index)), isOver),
  ]);
  await server.process.idle();
  return counts;
}
