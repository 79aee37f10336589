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

/** A page has the figures of its own plots only: of all keys, or of one. */
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

/** The width of a sheet of paper between its margins. */
const PRINT_WIDTH = 640;

const figures = JSON.parse(document.querySelector("#figures")?.textContent ?? "") as Figures;
const containers = [...document.querySelectorAll<HTMLElement>("[data-plot]")];

const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) draw(target as HTMLElement, contentRect.width);
});

for (const container of containers) resized.observe(container);

// A print has the plots in one column, and no event after its layout.
addEventListener("beforeprint", () => {
  for (const container of containers) draw(container, PRINT_WIDTH);
});
addEventListener("afterprint", () => {
  for (const container of containers) draw(container, container.clientWidth);
});

function draw(container: HTMLElement, width: number): void {
  if (width === 0) return;
  const plot = PLOTS[container.dataset["plot"] as PlotName](figures, Math.floor(width));
  // A screen reader sees one image. The table has the figures.
  container.setAttribute("role", "img");
  container.setAttribute("aria-label", plot.getAttribute("aria-label") ?? "");
  plot.setAttribute("aria-hidden", "true");
  container.replaceChildren(plot);
}
