import { decode, encode } from "./exact-json.ts";

type Methods = Record<string, (...args: unknown[]) => Promise<unknown>>;

/** Calls the method that a request names on one of its service bindings. */
export default {
  async fetch(request: Request, env: Record<string, Methods>): Promise<Response> {
    const { binding, method, args } = JSON.parse(await request.text(), decode);
    const answer = await env[binding]![method]!(...args).then(
      (value) => ({ value }),
      (error: Error) => ({ error: error.message }),
    );
    return new Response(JSON.stringify(answer, encode));
  },
};
