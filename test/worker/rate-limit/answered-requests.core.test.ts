import { expect, test } from "vitest";
import {
  type AnsweredRequests,
  remember,
} from "../../../src/worker/rate-limit/answered-requests.ts";

const request = (nonce: string, atMs = 0) => ({ nonce, atMs, admitted: true });

const rememberAll = (requests: AnsweredRequests) =>
  requests.reduce<AnsweredRequests>(remember, []).map(({ nonce }) => nonce);

test("the last 256 requests are remembered", () => {
  const many = Array.from({ length: 1_000 }, (_, n) => request(String(n)));
  expect(rememberAll(many)).toStrictEqual(many.slice(-256).map(({ nonce }) => nonce));
});

test("a request is remembered for 30 seconds", () => {
  expect(rememberAll([request("a"), request("b", 1), request("c", 30_000)])).toStrictEqual([
    "b",
    "c",
  ]);
});

test("a request is remembered once, as it was decided last", () => {
  const refused = { ...request("a"), admitted: false };
  expect(remember([refused, request("b")], request("a"))).toStrictEqual([
    request("b"),
    request("a"),
  ]);
});
