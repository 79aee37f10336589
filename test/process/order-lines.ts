/** Orders with consecutive ids, as lines that `orders export` writes. */
export function orderLines(firstId: number, count: number): string {
  const line = (_: unknown, index: number) =>
    `{"id":${firstId + index},"petId":7,"quantity":1,"complete":false,"status":"pending"}\n`;
  return Array.from({ length: count }, line).join("");
}
