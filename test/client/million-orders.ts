// Reads a million orders one by one, and prints how much the heap grew. million-orders.node.test.ts
// runs this script with a small heap.

import { createClient } from "../../src/client/client.ts";

const COUNT = 1_000_000;
const PER_PART = 1_000;
const FIRST_ID = 9_000_000_000_000_000_000n;

async function* body() {
  for (let first = 0; first < COUNT; first += PER_PART) {
    const orders = Array.from(
      { length: PER_PART },
      (_, index) => `{"id":${FIRST_ID + BigInt(first + index)},"quantity":12}`,
    );
    yield new TextEncoder().encode(`${first === 0 ? "[" : ","}${orders.join()}`);
  }
  yield new TextEncoder().encode("]");
}

function usedHeap(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

const client = createClient({
  apiKey: "sord_test",
  baseUrl: "https://orders.example",
  fetch: async () => {
    const headers = { "Content-Type": "application/json" };
    // Node's Response takes an async iterable, which the types of Workers lack.
    return new Response(body() as never, { headers });
  },
});

let count = 0;
let sum = 0n;
let firstBytes = 0;
let mostBytes = 0;
for await (const { id } of client.listOrders()) {
  count += 1;
  sum += id;
  if (count === 10_000) firstBytes = usedHeap();
  if (count % 100_000 === 0) mostBytes = Math.max(mostBytes, usedHeap());
}
console.log(JSON.stringify({ count, sum: String(sum), growthBytes: mostBytes - firstBytes }));
