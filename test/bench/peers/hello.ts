/** The smallest Worker: the floor for every comparison. */
export default {
  fetch: () => new Response("hello"),
};
