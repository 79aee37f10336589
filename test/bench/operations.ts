import type { Operations } from "./observed/counted-service.ts";
import type { Server } from "./server.ts";

/** The operations of a counting service since they were last asked for. */
export async function operationsSince(server: Server): Promise<Operations> {
  const response = await fetch(`${server.url}/operations`);
  return (await response.json()) as Operations;
}
