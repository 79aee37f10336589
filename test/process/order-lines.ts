/** Returns orders with consecutive ids, one JSON object per line as `orders export` writes them. */
export function orderLines(firstId: number, count: number): string {
  const line = (_: unknown, index: number) =>
    `{"id":${firstId + index},"petId":7,"quantity":1,"complete":false,"status":"pending"}\n`;
  return Array.from({ length: count }, line).join("");
}
