import type { World } from "./world.ts";

/** The results of a soak. */
export interface Figures {
  readonly minutes: number;
  readonly seed: number;
  readonly requests: number;
  /** The number of requests without a response, mostly because the service was killed. */
  readonly lost: number;
  /** The number of requests whose client disconnected before the response. */
  readonly dropped: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly kills: number;
  readonly keys: { readonly wellBehaved: number; readonly hostile: number };
  readonly addresses: number;
  readonly bannedKeys: number;
  readonly cancelledOrders: number;
  readonly violations: readonly string[];
}

/** Collects the results of a soak, including the violations of all subjects. */
export function figuresOf(
  world: World,
  { minutes, seed }: { readonly minutes: number; readonly seed: number },
  ordersGoneWrong: readonly string[],
): Figures {
  const keys = world.subjects.filter(({ name }) => !name.startsWith("guessing"));
  const wellBehaved = keys.filter(({ isWellBehaved }) => isWellBehaved).length;
  const banned = keys.filter(({ requests }) =>
    requests.some(({ answer }) => answer?.code === "api_key_banned"),
  );
  return {
    minutes,
    seed,
    requests: world.requests,
    lost: world.lost,
    dropped: world.dropped,
    answers: Object.fromEntries([...world.statuses].toSorted(([one], [other]) => one - other)),
    kills: world.service.kills,
    keys: { wellBehaved, hostile: keys.length - wellBehaved },
    addresses: world.subjects.length - keys.length,
    bannedKeys: banned.length,
    cancelledOrders: world.cancelled.size,
    violations: [
      ...world.undocumented.map((what) => `undocumented: ${what}`),
      ...world.wronged.map((what) => `refused wrongly: ${what}`),
      ...world.subjects.flatMap((subject) => subject.violations()),
      ...ordersGoneWrong,
    ],
  };
}

/** Formats the results as the table in docs/performance.md, followed by a list of violations. */
export function toMarkdown(figures: Figures): string {
  const count = (value: number) => value.toLocaleString("en");
  const answers = Object.entries(figures.answers).map(([status, n]) => `${status}: ${count(n)}`);
  const rows = [
    ["Minutes", String(figures.minutes)],
    ["Requests", count(figures.requests)],
    ["Answers by status", answers.join(", ")],
    ["Left without an answer by a kill", count(figures.lost)],
    ["Dropped by the client", count(figures.dropped)],
    ["Times killed and started again", count(figures.kills)],
    ["Keys of well-behaved clients", count(figures.keys.wellBehaved)],
    ["Keys of hostile clients, of which banned", `${figures.keys.hostile}, ${figures.bannedKeys}`],
    ["Addresses that guess keys", count(figures.addresses)],
    ["Orders cancelled, each once", count(figures.cancelledOrders)],
    ["Violations", count(figures.violations.length)],
  ];
  const table = rows.map(([what, value]) => `| ${what} | ${value} |`).join("\n");
  const wrong = figures.violations.map((violation) => `- ${violation}\n`).join("");
  return `| Soak | |\n| --- | --- |\n${table}\n\n${wrong}`;
}
