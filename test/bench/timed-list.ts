import { listRequest } from "./bench.ts";
import type { Bundle } from "./bundle.ts";
import { answerHeaders, type AnswerTimes, type Request, timeAnswer } from "./http.ts";
import { Server } from "./server.ts";

/** How long a list took. */
export interface ListTimes extends AnswerTimes {
  /** Processor time of the server in milliseconds, until the last byte. */
  readonly processorMs: number;
}

/** Measures one list. */
export async function timeList({ process }: Server, request: Request): Promise<ListTimes> {
  const spentBefore = process.processorMs();
  const times = await timeAnswer(request);
  return { ...times, processorMs: process.processorMs() - spentBefore };
}

/**
 * Measures the first list of a new process: its memory and the data centre's cache are empty. The
 * key is known by then, the limiter's object runs, and the database is open.
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
  // A process that is stopped while it fills the cache takes Miniflare down with it.
  await server.process.idle();
  return times;
}
