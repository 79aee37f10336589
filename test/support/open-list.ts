import { connect, type Socket } from "node:net";

/** Requests the list. Returns its socket, which takes nothing until it is read. */
export function openList({ url }: { readonly url: string }, key: string): Socket {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).on("error", () => {});
  const head = "GET /v1/store/orders HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n";
  socket.write(`${head}Authorization: Bearer ${key}\r\n\r\n`);
  return socket;
}
