import type { PageFigures } from "../usage/page-figures.ts";
import { outcomesPlot, trafficPlot } from "./day-plots.ts";
import { bannedPlot, busiestPlot, limitsPlot } from "./key-plots.ts";

type Draw = (figures: PageFigures, width: number) => Element;

const PLOTS: Readonly<Record<string, Draw>> = {
  traffic: trafficPlot,
  outcomes: outcomesPlot,
  busiest: busiestPlot,
  limits: limitsPlot,
  banned: bannedPlot,
};

const figures = JSON.parse(document.querySelector("#figures")?.textContent ?? "") as PageFigures;

const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) draw(target, contentRect.width);
});

for (const container of document.querySelectorAll("[data-plot]")) resized.observe(container);

function draw(container: Element, width: number): void {
  const plotted = PLOTS[container.getAttribute("data-plot") ?? ""];
  if (plotted === undefined || width === 0) return;
  const plot = plotted(figures, Math.floor(width));
  // A screen reader sees one image. The table has the figures.
  container.setAttribute("role", "img");
  container.setAttribute("aria-label", plot.getAttribute("aria-label") ?? "");
  plot.setAttribute("aria-hidden", "true");
  container.replaceChildren(plot);
}
