import { expect, test } from "vitest";
import {
  newestToStore,
  recall,
  remember,
} from "../../../src/worker/rate-limit/answered-requests.ts";

const request = (nonce: string, admitted = true) => ({ nonce, admitted });
const rememberAll = (requests: readonly ReturnType<typeof request>[]) =>
  requests.reduce(remember, "");

test("the decision on a request is found by the request's nonce", () => {
  const answered = rememberAll([request("a"), request("ab", false), request("b")]);
  expect(["a", "ab", "b", "", "c"].map((nonce) => recall(answered, nonce))).toStrictEqual([
    true,
    false,
    true,
    undefined,
    undefined,
  ]);
});

const nonce = () => crypto.randomUUID().slice(-12);

test("at least the last 200 requests are remembered, in limited space", () => {
  const many = Array.from({ length: 1_000 }, () => request(nonce()));
  const answered = rememberAll(many);
  for (const { nonce: last } of many.slice(-200)) expect(recall(answered, last)).toBe(true);
  expect(recall(answered, many[0]!.nonce)).toBeUndefined();
  expect(answered.length).toBeLessThanOrEqual(3_000);
});

test("the latest decision on a request is found", () => {
  const answered = rememberAll([request("a", false), request("b"), request("a")]);
  expect(recall(answered, "a")).toBe(true);
});

test("at least the last 32 requests are stored, in fewer bytes than an overflow page needs", () => {
  const many = Array.from({ length: 100 }, () => request(nonce()));
  const stored = newestToStore(rememberAll(many));
  for (const { nonce: last } of many.slice(-32)) expect(recall(stored, last)).toBe(true);
  expect(recall(stored, many[0]!.nonce)).toBeUndefined();
  expect(stored.length).toBeLessThanOrEqual(480);
});
