import { once } from "node:events";
import { createServer } from "node:net";
import pRetry from "p-retry";

/**
 * Waits up to a second, in which an earlier service may end, until a port of this machine is free.
 *
 * @param otherPort the command that starts the service on another port, for the error message.
 * @throws an Error for the operator if the port is in use or this process may not use it.
 */
export async function requireFreePort(port: number, otherPort: string): Promise<void> {
  const listen = async (): Promise<void> => {
    const server = createServer().listen(port, "127.0.0.1");
    await once(server, "listening");
    await new Promise((resolve) => server.close(resolve));
  };
  const patience = { retries: Infinity, minTimeout: 100, factor: 1, maxRetryTime: 1_000 };
  await pRetry(listen, patience).catch((error: NodeJS.ErrnoException) => {
    throw new Error(
      error.code === "EADDRINUSE"
        ? `port ${port} is taken by another program: end it, or serve on another port: ${otherPort}`
        : `port ${port} cannot be used: ${error.message}`,
      { cause: error },
    );
  });
}
