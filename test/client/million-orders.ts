// Reads a million orders one by one, and prints how much the heap grew. million-orders.node.test.ts
// runs this script with a small heap.

import { createClient } from "../../src/client/client.ts";

const COUNT = 1_000_000;
const PER_PART = 1_000;

const encoder = new TextEncoder();

function part(first: number): Uint8Array {
  const orders = Array.from({ length: PER_PART }, (_, index) => {
    const id = 9_000_000_000_000_000_000n + BigInt(first + index);
    return `{"id":${id},"quantity":12}`;
  });
  return encoder.encode((first === 0 ? "[" : ",") + orders.join(","));
}

function answer(): Response {
  let sent = 0;
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (sent === COUNT) {
          controller.enqueue(encoder.encode("]"));
          controller.close();
          return;
        }
        controller.enqueue(part(sent));
        sent += PER_PART;
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(stream, { headers: { "Content-Type": "application/json" } });
}

function usedHeap(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}

const client = createClient({
  apiKey: "sord_test",
  baseUrl: "https://orders.example",
  fetch: async () => answer(),
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
console.log(
  JSON.stringify({
    count,
    sum: String(sum),
    growthBytes: mostBytes - firstBytes,
  }),
);
