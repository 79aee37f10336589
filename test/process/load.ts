/** Clients that each send one request after the other until `stop`. */
export class Load {
  readonly #clients: Promise<void[]>;
  #isStopped = false;
  /** The number of answers with each status. */
  readonly statuses: Record<number, number> = {};
  /** The errors of requests that got no complete answer. */
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
          // The service is gone.
          return;
        }
      }
    };
    this.#clients = Promise.all(Array.from({ length: clients }, run));
  }

  /** The number of answers with this status. */
  count(status: number): number {
    return this.statuses[status] ?? 0;
  }

  /** Waits until each client has finished its request. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#clients;
  }
}
