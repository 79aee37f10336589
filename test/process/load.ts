/** Clients that send one request after the other until they are stopped. */
export class Load {
  readonly #clients: Promise<void[]>;
  #isStopped = false;
  /** How many answers there were of each status. */
  readonly statuses: Record<number, number> = {};
  /** Requests that got no whole answer. */
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
          // No use to go on: there is nobody to answer.
          return;
        }
      }
    };
    this.#clients = Promise.all(Array.from({ length: clients }, run));
  }

  /** How many answers had this status. */
  count(status: number): number {
    return this.statuses[status] ?? 0;
  }

  /** Lets each client finish its request. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#clients;
  }
}
