/** Runs several clients, each of which sends one request after another until `stop` is called. */
export class Load {
  readonly #clients: Promise<void[]>;
  #isStopped = false;
  /** The number of responses with each HTTP status. */
  readonly statuses: Record<number, number> = {};
  /** The errors of requests without a complete response. */
  readonly failures: unknown[] = [];

  /** @param request sends one request; `turn` counts the requests of all clients, from 0. */
  constructor(clients: number, request: (turn: number) => Promise<Response>) {
    let turns = 0;
    const run = async (): Promise<void> => {
      while (!this.#isStopped) {
        try {
          const response = await request(turns++);
          await response.arrayBuffer();
          this.statuses[response.status] = (this.statuses[response.status] ?? 0) + 1;
        } catch (error) {
          this.failures.push(error);
          // The client stops, because the service is no longer running.
          return;
        }
      }
    };
    this.#clients = Promise.all(Array.from({ length: clients }, run));
  }

  count(status: number): number {
    return this.statuses[status] ?? 0;
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#clients;
  }
}
