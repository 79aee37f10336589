import { once } from "node:events";
import { createServer } from "node:net";
import pRetry from "p-retry";

export const LARGEST_PORT = 65_535;

/**
 * Waits up to a second until a port is free, because an earlier service may still be ending.
 *
 * @throws an Error for the operator if the port stays in use.
 */
export async function requireFreePort(port: number): Promise<void> {
  const listen = async (): Promise<void> => {
    const server = createServer().listen(port, "127.0.0.1");
    await once(server, "listening");
    await new Promise((resolve) => server.close(resolve));
  };
  const patience = { retries: Infinity, minTimeout: 100, factor: 1, maxRetryTime: 1_000 };
  await pRetry(listen, patience).catch((error: NodeJS.ErrnoException) => {
    throw new Error(
      error.code === "EADDRINUSE"
        ? `port ${port} is taken by another program: end it, or serve on another port (--port N)`
        : `port ${port} cannot be used: ${error.message}`,
      { cause: error },
    );
  });
}
