import type { html } from "hono/html";
import { NEAR_LIMIT } from "./near-limit.ts";
import type { KeyFigures, PageFigures } from "./page-figures.ts";
import {
  count,
  countTiles,
  incomplete,
  pageBody,
  percentRefused,
  refusals,
  type Section,
  selection,
  type Tile,
  UNUSED,
} from "./page-parts.ts";
import { type Column, dataTable } from "./page-table.ts";

/** Writes the page of all keys: the totals, then each plot with its legend and a table. */
export function pageSections(figures: PageFigures): ReturnType<typeof html> {
  const sections = [traffic, refusedByDay, limits, busiest, banned].map((of) => of(figures));
  return pageBody(tiles(figures), sections, figures.days.length);
}

function tiles({ totals, keys, usedKeys, bannedKeys, nearKeys }: PageFigures): Tile[] {
  return [
    ...countTiles(totals, `of ${count(bannedKeys)} ${bannedKeys === 1 ? "key" : "keys"}`),
    ["Keys in use", count(usedKeys), `of ${count(keys)}`],
    ["Near a limit", count(nearKeys), `keys at ${NEAR_LIMIT * 100} % or more`],
  ];
}

function traffic({ days, usedKeys }: PageFigures): Section {
  return {
    title: "Traffic by day and plan",
    text: "Requests admitted, by the present plan of each key.",
    plots: [
      {
        name: "traffic",
        legend: [...PLANS.map((plan) => [plan, plan] as const), ...incomplete(days)],
      },
    ],
    table: dataTable("Requests admitted by day and plan", days, [
      ["day", ({ day }) => day],
      ...PLANS.map((plan): Column<(typeof days)[number]> => [plan, ({ byPlan }) => byPlan[plan]]),
      ["in all", ({ admitted }) => admitted],
    ]),
    none: usedKeys === 0 && UNUSED,
  };
}

function refusedByDay({ days, totals }: PageFigures): Section {
  const table = dataTable("Requests refused and bans by day", days, [
    ["day", ({ day }) => day],
    ["refused", ({ refused }) => refused],
    ["of all", percentRefused],
    ["bans", ({ bans }) => bans],
  ]);
  return refusals(days, totals, table);
}

function limits({ nearest }: PageFigures): Section {
  return {
    title: "How near to the limits",
    text: `The fullest minute and the fullest day of each key, relative to its limits on that day. ${selection(nearest)}`,
    plots: [
      {
        name: "limits",
        legend: [
          ["minute", "minute", "ring"],
          ["day", "day", "diamond"],
          ["near", `near a limit, ${NEAR_LIMIT * 100} %`, "dashed"],
          ["refused", "the limit", "line"],
        ],
      },
    ],
    table: dataTable("The fullest windows of keys", nearest.keys, [
      ...NAMES,
      ["minute, %", ({ minutePeak }) => Math.round(minutePeak * 100)],
      ["day, %", ({ dayPeak }) => Math.round(dayPeak * 100)],
      ["refused", ({ refused }) => refused],
    ]),
    none: nearest.keys.length === 0 && UNUSED,
  };
}

function busiest({ busiest: ranking }: PageFigures): Section {
  return {
    title: "The busiest keys",
    text: `Requests admitted. ${selection(ranking)}`,
    plots: [{ name: "busiest", legend: PLANS.map((plan) => [plan, plan]) }],
    table: dataTable("The keys with the most requests admitted", ranking.keys, [
      ...NAMES,
      ["admitted", ({ admitted }) => admitted],
      ["refused", ({ refused }) => refused],
    ]),
    none: ranking.keys.length === 0 && UNUSED,
  };
}

function banned({ banned: ranking }: PageFigures): Section {
  return {
    title: "The banned keys",
    text: `The bans of each key, and the strikes that led to them. ${selection(ranking)}`,
    plots: [{ name: "banned", legend: [["banned", "bans"]] }],
    table: dataTable("The keys with the most bans", ranking.keys, [
      ...NAMES,
      ["bans", ({ bans }) => bans],
      ["strikes", ({ strikes }) => strikes],
      ["refused", ({ refused }) => refused],
    ]),
    none: ranking.keys.length === 0 && "No key was banned on these days.",
  };
}

const PLANS = ["free", "pro", "business", "enterprise"] as const;

const NAMES: readonly Column<KeyFigures>[] = [
  ["key", ({ name }) => name],
  ["id", ({ id }) => id],
  ["plan", ({ plan }) => plan],
];
