import { element, inside } from "./element.ts";
import { KeyField } from "./key-field.ts";
import { OrderList } from "./order-list.ts";
import { OrderRows } from "./order-rows.ts";
import { Panel } from "./panel.ts";
import { QuotaView } from "./quota.ts";
import { type ApiRequest, type Outcome, send } from "./request.ts";
import { enliven } from "./samples.ts";
import { provokeBan, provokeLimit } from "./trigger.ts";
import { type RowState, rowStateOf } from "./view.ts";

/** True in the script of `npm start`. The build replaces it, and leaves out what needs it. */
declare const IS_LOCAL: boolean;

const panels: Panel[] = [];
const quota = new QuotaView();
const key = new KeyField(() => {
  for (const panel of panels) panel.forgetWait();
  void quota.show(key.entered.key);
});
/** Shows the state of an order in the rows of the newest list. */
let showRow = (_orderId: string, _state: RowState): void => {};
/** Asks whether to cancel an order, unless another cancellation runs. */
let askToCancel = (_orderId: string): void => {};

function panelBehind(controls: Element): Panel {
  const panel = new Panel(controls);
  panels.push(panel);
  return panel;
}

/** Runs a task in a panel with the key that is in the field now, and then shows what is left of it. */
async function run(
  panel: Panel,
  task: (key: string, signal: AbortSignal, say: (text: string) => void) => Promise<Outcome>,
  list?: OrderList,
): Promise<Outcome | null> {
  const { key: secret, problem } = key.entered;
  const outcome = await panel.run(
    async (signal, say) =>
      problem === null ? task(secret, signal, say) : { kind: "unsent", problem },
    list,
  );
  if (outcome !== null) void quota.refresh();
  return outcome;
}

/** Asks for confirmation. Then runs `go`. */
function confirm(
  words: Readonly<Record<"title" | "text" | "keep" | "go", string>>,
  go: () => void,
) {
  for (const [name, text] of Object.entries(words)) {
    element(`confirm-${name}`, HTMLElement).textContent = text;
  }
  const dialog = element("confirm", HTMLDialogElement);
  dialog.returnValue = "";
  dialog.showModal();
  dialog.onclose = () => {
    if (dialog.returnValue === "go") go();
  };
}

type Operation = Pick<ApiRequest, "method" | "path">;

function addListing(form: HTMLFormElement, operation: Operation): void {
  const panel = panelBehind(form);
  const rows = new OrderRows(inside(panel.root, ".orders"), (orderId) => askToCancel(orderId));
  showRow = (orderId, state) => rows.showState(orderId, state);
  onSubmit(form, async () => {
    const list = new OrderList();
    const sentMs = performance.now();
    const read = (say: (text: string) => void) => (text: string) => {
      list.read(text);
      if (list.total > 0) say(`${list.total.toLocaleString("en")} orders so far …`);
    };
    const outcome = await run(
      panel,
      (secret, signal, say) => send(secret, operation, signal, read(say)),
      list,
    );
    const isList = outcome?.kind === "response" && outcome.received.status === 200;
    if (isList && list.isWhole) rows.showList(list, sentMs);
  });
}

function addCancelling(form: HTMLFormElement, { method, path }: Operation): void {
  const panel = panelBehind(form);
  const field = inside(form, "input") as HTMLInputElement;
  const cancel = async (orderId: string): Promise<void> => {
    showRow(orderId, { settled: "", note: "Cancelling …" });
    const own = { method, path: path.replace(/\{.*\}/, encodeURIComponent(orderId)) };
    const outcome = await run(panel, (secret, signal) => send(secret, own, signal));
    if (outcome !== null) showRow(orderId, rowStateOf(outcome));
  };
  askToCancel = (orderId) => {
    if (panel.isBusy) return;
    const text = "A cancelled order cannot be brought back here.";
    const words = { title: `Cancel order ${orderId}?`, text, keep: "Keep the order" };
    confirm({ ...words, go: "Cancel the order" }, () => void cancel(orderId));
  };
  onSubmit(form, async () => {
    const orderId = field.value.trim();
    if (orderId !== "") return askToCancel(orderId);
    const problem = "Which order? Enter its orderId first.";
    await panel.run(async () => ({ kind: "unsent", problem }));
    field.focus();
  });
}

function onSubmit(form: HTMLFormElement, go: () => Promise<void>): void {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void go();
  });
}

/** Adds the buttons that provoke a 429 and a ban, with requests for the list. */
function addTriggers(path: string): void {
  const controls = element("triggers", HTMLElement);
  const panel = panelBehind(controls);
  const provoke = (isBan: boolean): void => {
    void run(panel, (secret, signal, say) => {
      const headers = { "If-None-Match": "*" };
      const request = (end: AbortSignal) => send(secret, { method: "GET", path, headers }, end);
      const provocation = { request, say, signal };
      if (!isBan) return provokeLimit(provocation);
      return provokeBan(provocation, Number(controls.dataset["graceMs"]));
    });
  };
  element("trigger-limit", HTMLElement).addEventListener("click", () => provoke(false));
  element("trigger-ban", HTMLElement).addEventListener("click", () => {
    const text =
      "Use a demo key. The page keeps sending after the 429 until the service bans the key. Everyone who uses the key is then locked out, for a minute the first time.";
    const words = { title: "Have this key banned?", text, keep: "Leave the key usable" };
    if (!panel.isBusy) confirm({ ...words, go: "Have it banned" }, () => provoke(true));
  });
}

/** Marks the section in view in the navigation: the one that crosses the upper third of the window. */
function followSections(): void {
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target, isIntersecting } of entries) {
        const link = document.querySelector(`.sections a[href="#${target.id}"]`);
        if (isIntersecting) link?.setAttribute("aria-current", "true");
        else link?.removeAttribute("aria-current");
      }
    },
    { rootMargin: "-33% 0px -66% 0px" },
  );
  for (const section of document.querySelectorAll("main > section[id]")) observer.observe(section);
}

for (const form of document.querySelectorAll<HTMLFormElement>("form.send")) {
  const { method = "", path = "", list } = form.dataset;
  if (method === "DELETE") addCancelling(form, { method, path });
  else if (list !== undefined) addListing(form, { method, path });
  else {
    const panel = panelBehind(form);
    onSubmit(form, async () => {
      await run(panel, (secret, signal) => send(secret, { method, path }, signal));
    });
  }
}

enliven((sample) => key.filled(sample));
followSections();

// The demo keys and the commands of the project exist only where `npm start` runs.
const isLoopback = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
document.documentElement.classList.toggle("local", isLoopback);
if (IS_LOCAL && isLoopback) addTriggers(inside(document.body, "[data-list]").dataset["path"] ?? "");

setInterval(() => {
  quota.tick();
  for (const panel of panels) panel.tick();
}, 250);
