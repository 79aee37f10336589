import { type Bench, listRequest } from "../bench.ts";
import { expectedList } from "../order-file.ts";
import { answerBody, type Request } from "../http.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore } from "../store.ts";
import { timeColdList, timeList } from "../timed-list.ts";

/**
 * Measures a list of a million orders. Compares the time of the list with the times of two simpler
 * Workers, and the bytes of the list with the imported order file.
 */
export async function largeList(bench: Bench): Promise<Result[]> {
  const store = await bench.store(bench.orders);
  const bundle = await bench.service();
  const coldStore = { folder: await copyStore(store, "cold"), key: store.key };
  await using service = await Server.startWithoutCache(bundle, {
    store: store.folder,
    hasObjects: true,
  });
  await using plain = await Server.start(await bench.worker("peers/plain-list"), {
    store: await copyStore(store, "plain"),
  });
  await using floor = await Server.start(await bench.worker("peers/bare-stream"), {
    store: await copyStore(store, "floor"),
  });
  const list = listRequest(service.url, store.key);

  bench.say("comparing the answer with what was imported");
  const exact = [await equalBytes(list, store.orderFile)];
  await service.process.idle();
  exact.push(await equalBytes(list, store.orderFile));

  bench.say(`listing ${bench.orders} orders, ${bench.rounds} rounds`);
  const figures = await takeTurns(bench.rounds, {
    service: () => timeColdList(bundle, coldStore),
    floor: () => timeList(floor, { url: floor.url }),
    kept: () => timeList(service, list),
    plain: () => timeList(plain, { url: plain.url }),
  });
  const totals = (name: keyof typeof figures) => figures[name].map(({ totalMs }) => totalMs);
  const firstBytes = (name: keyof typeof figures) =>
    figures[name].map(({ firstByteMs }) => firstByteMs);

  const processor = (name: keyof typeof figures) =>
    figures[name].map(({ processorMs }) => processorMs);

  const orders = number(bench.orders);
  const serviceText = medianText(totals("service"), "ms");
  return [
    {
      what: `${orders} orders, cold, in all: times faster than \`.all()\` and \`c.json()\``,
      service: serviceText,
      peer: medianText(totals("plain"), "ms"),
      ratio: spreadOf(ratios(totals("plain"), totals("service"))),
      processorRatio: spreadOf(ratios(processor("plain"), processor("service"))),
      target: { atLeast: 3.5 },
    },
    {
      what: `${orders} orders, cold, first byte: times sooner`,
      service: medianText(firstBytes("service"), "ms"),
      peer: medianText(firstBytes("plain"), "ms"),
      ratio: spreadOf(ratios(firstBytes("plain"), firstBytes("service"))),
      target: { atLeast: 100 },
    },
    {
      what: `${orders} orders, cold: speed of a Worker that only streams the pages`,
      service: serviceText,
      peer: medianText(totals("floor"), "ms"),
      ratio: spreadOf(ratios(totals("floor"), totals("service"))),
      processorRatio: spreadOf(ratios(processor("floor"), processor("service"))),
      target: { atLeast: 0.9 },
    },
    {
      what: `${orders} orders, unchanged: times faster than cold`,
      service: medianText(totals("kept"), "ms"),
      peer: serviceText,
      ratio: spreadOf(ratios(totals("service"), totals("kept"))),
      processorRatio: spreadOf(ratios(processor("service"), processor("kept"))),
      target: null,
    },
    {
      what: `${orders} orders, cold and unchanged: share of bytes as imported`,
      service: number(exact[0]?.bytes ?? 0) + " bytes",
      peer: "the imported file",
      ratio: spreadOf(exact.map(({ isEqual }) => (isEqual ? 1 : 0))),
      target: { atLeast: 1 },
    },
  ];
}

async function equalBytes(
  request: Request,
  orderFile: string,
): Promise<{ isEqual: boolean; bytes: number }> {
  const answered = await answerBody(request);
  const expected: Buffer[] = [];
  for await (const piece of expectedList(orderFile)) expected.push(piece);
  return { isEqual: answered.equals(Buffer.concat(expected)), bytes: answered.length };
}
