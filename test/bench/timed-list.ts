import { listRequest } from "./bench.ts";
import type { Bundle } from "./bundle.ts";
import { answerHeaders, type AnswerTimes, type Request, timeAnswer } from "./http.ts";
import { Server } from "./server.ts";

/** The times of a response with a list, and the server's processor time. */
export interface ListTimes extends AnswerTimes {
  /**
   * The server's processor time from the request to the last byte of the response, in milliseconds.
   */
  readonly processorMs: number;
}

/**
 * Requests a list of orders; measures the times of the response and the server's processor time.
 */
export async function timeList({ process }: Server, request: Request): Promise<ListTimes> {
  const spentBefore = process.processorMs();
  const times = await timeAnswer(request);
  return { ...times, processorMs: process.processorMs() - spentBefore };
}

/**
 * Measures the first list of a new process, with empty memory and an empty Cache API. An earlier
 * cancellation has already loaded the key, started the limiter's Durable Object and opened the
 * database.
 */
export async function timeColdList(
  bundle: Bundle,
  { folder, key }: { folder: string; key: string },
): Promise<ListTimes> {
  await using server = await Server.startWithoutCache(bundle, { store: folder, hasObjects: true });
  const list = listRequest(server.url, key);
  const { statusCode } = await answerHeaders({ ...list, url: `${list.url}/-1`, method: "DELETE" });
  if (statusCode !== 404) throw new Error(`An unknown order was answered ${statusCode}.`);
  const times = await timeList(server, list);
  // Miniflare crashes if its process is stopped while the service fills the cache.
  await server.process.idle();
  return times;
}
