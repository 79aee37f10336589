import { expect, test } from "vitest";
import { recall, remember } from "../../../src/worker/rate-limit/answered-requests.ts";

const request = (nonce: string, atMs = 0, admitted = true) => ({ nonce, atMs, admitted });
const rememberAll = (requests: readonly ReturnType<typeof request>[]) =>
  requests.reduce(remember, "");

test("the decision on a request is recalled by its nonce", () => {
  const answered = rememberAll([request("a"), request("ab", 1, false), request("b", 2)]);
  expect(["a", "ab", "b", "", "c"].map((nonce) => recall(answered, nonce))).toStrictEqual([
    true,
    false,
    true,
    undefined,
    undefined,
  ]);
});

test("at least the last 256 requests are remembered, in bounded space", () => {
  const nonce = () => crypto.randomUUID().slice(0, 13);
  const many = Array.from({ length: 1_000 }, () => request(nonce(), Date.now()));
  const answered = rememberAll(many);
  for (const { nonce: last } of many.slice(-256)) expect(recall(answered, last)).toBe(true);
  expect(recall(answered, many[0]!.nonce)).toBeUndefined();
  expect(answered.length).toBeLessThanOrEqual(6_400);
});

test("a request is remembered for 30 seconds", () => {
  const answered = rememberAll([request("a"), request("b", 1), request("c", 30_000)]);
  expect(["a", "b", "c"].map((nonce) => recall(answered, nonce))).toStrictEqual([
    undefined,
    true,
    true,
  ]);
});

test("the last decision on a request is the one that is recalled", () => {
  const answered = rememberAll([request("a", 0, false), request("b"), request("a")]);
  expect(recall(answered, "a")).toBe(true);
});
