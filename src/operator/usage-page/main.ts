import type { KeyPageFigures } from "../usage/key-page.ts";
import type { PageFigures } from "../usage/page-figures.ts";
import type { PlotName } from "../usage/page-parts.ts";
import {
  admittedPlot,
  bansPlot,
  dayWindowPlot,
  minutePlot,
  refusedPlot,
  trafficPlot,
} from "./day-plots.ts";
import { bannedPlot, busiestPlot, limitsPlot } from "./key-plots.ts";

/**
 * The figures of both kinds of usage page. Each page contains only the figures of its own plots:
 * `PageFigures` for all keys, `KeyPageFigures` for one key.
 */
type Figures = PageFigures & KeyPageFigures;

const PLOTS: Readonly<Record<PlotName, (figures: Figures, width: number) => Element>> = {
  admitted: admittedPlot,
  banned: bannedPlot,
  bans: bansPlot,
  busiest: busiestPlot,
  day: dayWindowPlot,
  limits: limitsPlot,
  minute: minutePlot,
  refused: refusedPlot,
  traffic: trafficPlot,
};

/** The width of a printed page between its margins, in pixels. */
const PRINT_WIDTH = 640;

const figures = JSON.parse(document.querySelector("#figures")?.textContent ?? "") as Figures;
const containers = [...document.querySelectorAll<HTMLElement>("[data-plot]")];

const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) draw(target as HTMLElement, contentRect.width);
});

for (const container of containers) resized.observe(container);

// Draws the plots at the printed width in advance: browsers fire no event after the print layout.
addEventListener("beforeprint", () => {
  for (const container of containers) draw(container, PRINT_WIDTH);
});
addEventListener("afterprint", () => {
  for (const container of containers) draw(container, container.clientWidth);
});

function draw(container: HTMLElement, width: number): void {
  if (width === 0) return;
  const plot = PLOTS[container.dataset["plot"] as PlotName](figures, Math.floor(width));
  // Screen readers treat the plot as one image. They find the figures in the table below the plot.
  container.setAttribute("role", "img");
  container.setAttribute("aria-label", plot.getAttribute("aria-label") ?? "");
  plot.setAttribute("aria-hidden", "true");
  container.replaceChildren(plot);
}
