/** The smallest possible Worker. No service can answer faster. */
export default {
  fetch: () => new Response("hello"),
};
