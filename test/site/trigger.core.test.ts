import { expect, test } from "vitest";
import type { Answer } from "../../src/site/console/answer.ts";
import { provokeLimit } from "../../src/site/console/trigger.ts";

test("the first response other than 304 ends the parallel requests", async () => {
  const signals: AbortSignal[] = [];
  const request = (signal: AbortSignal) => {
    const isFirst = signals.push(signal) === 1;
    return new Promise<Answer>((resolve) => isFirst && resolve({ status: 500 } as Answer));
  };
  await provokeLimit({ request, say: () => {}, signal: new AbortController().signal });
  expect(signals.map(({ aborted }) => aborted)).toEqual(Array(6).fill(true));
});
