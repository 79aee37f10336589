import { type Bench, listRequest } from "../bench.ts";
import { timeAnswer } from "../http.ts";
import { medianText, type Result } from "../report.ts";
import { spreadOf } from "../rounds.ts";
import { Server } from "../server.ts";

const DELAY_MS = 20;
const WARM_UP = 5;
const LISTS_PER_ROUND = 10;

/**
 * The time of a list if every call of a binding takes 20 ms: about 20 ms if the calls run side by
 * side.
 */
export async function sideBySide(bench: Bench): Promise<Result[]> {
  const store = await bench.store(10);
  await using server = await Server.start(await bench.worker("observed/delayed-service"), {
    store: store.folder,
    hasObjects: true,
    vars: { DELAY_MS },
  });
  const list = listRequest(server.url, store.key);
  bench.say(`a list with ${DELAY_MS} ms in each binding`);
  const times: number[] = [];
  for (let index = -WARM_UP; index < LISTS_PER_ROUND * bench.rounds; index += 1) {
    const { totalMs } = await timeAnswer(list);
    if (index >= 0) times.push(totalMs);
  }
  return [
    {
      what: `A list with ${DELAY_MS} ms injected into each binding: multiples of that`,
      service: medianText(times, "ms"),
      peer: `${DELAY_MS} ms`,
      ratio: spreadOf(times.map((time) => time / DELAY_MS)),
      target: { atMost: 1.5 },
    },
  ];
}
