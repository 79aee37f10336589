import { type Outcome, send } from "./answer.ts";
import { AnswerView } from "./answer-view.ts";
import { element } from "./element.ts";
import { Meters } from "./meters.ts";
import { OrderTable } from "./order-table.ts";
import { enliven, KeyFields } from "./samples.ts";
import { provokeBan, provokeLimit } from "./trigger.ts";
import { rowStateOf } from "./view.ts";
import { Work, type WorkKind } from "./work.ts";

const LIST = "/v1/store/orders";

const DOING: Readonly<Record<WorkKind, string>> = {
  list: "Listing the orders …",
  cancel: "Cancelling the order …",
  limit: "Sending requests until one is refused …",
  ban: "Sending requests until the key is banned …",
};

const orderIdField = element("order-id", HTMLInputElement);
const orderIdNote = element("order-id-note", HTMLElement);
const controls = element("controls", HTMLElement);
const results = element("results", HTMLElement);
const wait = element("wait", HTMLElement);
const summary = element("summary", HTMLElement);
const dialog = element("confirm", HTMLDialogElement);
const busy = element("busy", HTMLElement);
const progress = element("progress", HTMLElement);

const keys = new KeyFields();
const meters = new Meters();
const answerView = new AnswerView();
const orderTable = new OrderTable((orderId) => askToCancel(orderId));
const work = new Work((kind) => {
  busy.hidden = kind === null;
  progress.textContent = kind === null ? "" : DOING[kind];
  for (const button of document.querySelectorAll<HTMLButtonElement>("[data-sends]")) {
    const starts = button.dataset["sends"] as WorkKind;
    button.setAttribute("aria-disabled", String(!work.canStart(starts)));
  }
});

/** Runs `task` with the key that is in the field now. Shows its outcome, and then calls `after`. */
async function start(
  kind: WorkKind,
  task: (key: string, signal: AbortSignal) => Promise<Outcome>,
  after: (outcome: Outcome) => void = () => {},
): Promise<void> {
  const { key, problem } = keys.entered;
  await work.start<Outcome>(
    kind,
    async (signal) => (problem === null ? task(key, signal) : { kind: "unsent", problem }),
    (outcome) => {
      meters.show(outcome);
      answerView.show(outcome);
      after(outcome);
    },
  );
}

function list(): Promise<void> {
  return start(
    "list",
    (key, signal) => send(key, { method: "GET", path: LIST }, signal),
    (outcome) => {
      orderTable.showList(outcome);
      bringIntoView(0.5);
    },
  );
}

function cancel(orderId: string): Promise<void> {
  const path = `${LIST}/${encodeURIComponent(orderId)}`;
  return start(
    "cancel",
    (key, signal) => {
      orderTable.showState(orderId, { settled: "", note: "Cancelling …" });
      return send(key, { method: "DELETE", path }, signal);
    },
    (outcome) => {
      if (!orderTable.showState(orderId, rowStateOf(outcome))) bringIntoView(1);
    },
  );
}

/** Provokes a 429 or a ban with the key that is in the field now. */
function trigger(kind: "limit" | "ban"): Promise<void> {
  const headers = { "If-None-Match": "*" };
  const task = async (key: string, signal: AbortSignal): Promise<Outcome> => {
    const provocation = {
      signal,
      request: async (end: AbortSignal) => {
        const outcome = await send(key, { method: "GET", path: LIST, headers }, end);
        if (!signal.aborted) meters.show(outcome);
        return outcome;
      },
      say: (text: string) => void (progress.textContent = text),
    };
    if (kind === "limit") return provokeLimit(provocation);
    const last = await provokeBan(provocation, Number(results.dataset["graceMs"]));
    if (last.kind !== "answer" || last.answer.status !== 304) return last;
    return { kind: "unsent", problem: "A new window opened before the ban. Try again." };
  };
  return start(kind, task, () => bringIntoView(1));
}

/** Scrolls to the outcome, and to the controls if both fit, unless the upper `share` shows it. */
function bringIntoView(share: number): void {
  const { top, bottom } = (wait.hidden ? summary : wait).getBoundingClientRect();
  const covered = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop);
  if (top >= covered && bottom <= innerHeight * share) return;
  const fits = bottom - controls.getBoundingClientRect().top <= innerHeight - covered;
  (fits ? controls : results).scrollIntoView();
  const staysInView = fits && element("try", HTMLElement).contains(document.activeElement);
  if (!staysInView) results.focus({ preventScroll: true });
}

/** Asks for confirmation, unless this cannot start now. Then runs `go`. */
function confirm(kind: "cancel" | "ban", title: string, text: string, go: () => Promise<void>) {
  if (!work.canStart(kind)) return;
  element("confirm-title", HTMLElement).textContent = title;
  element("confirm-text", HTMLElement).textContent = text;
  element("confirm-go", HTMLElement).textContent =
    kind === "ban" ? "Have it banned" : "Cancel order";
  dialog.returnValue = "";
  dialog.showModal();
  dialog.onclose = () => {
    if (dialog.returnValue === "go") void go();
  };
}

function askToCancel(orderId: string): void {
  const text = "A cancelled order cannot be brought back here.";
  confirm("cancel", `Cancel order ${orderId}?`, text, () => cancel(orderId));
}

for (const id of ["first-call", "list"]) {
  element(id, HTMLFormElement).addEventListener("submit", (event) => {
    event.preventDefault();
    void list();
  });
}

element("cancel", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  const orderId = orderIdField.value.trim();
  orderIdNote.textContent = orderId === "" ? "Which order? Enter its orderId first." : "";
  if (orderId !== "") askToCancel(orderId);
  else orderIdField.focus();
});

element("trigger-limit", HTMLButtonElement).addEventListener("click", () => void trigger("limit"));
element("trigger-ban", HTMLButtonElement).addEventListener("click", () => {
  const text =
    "Use a demo key. The page keeps sending after the 429 until the service bans the key. Everyone who uses the key is then locked out, for a minute the first time.";
  confirm("ban", "Have this key banned?", text, () => trigger("ban"));
});
element("stop", HTMLButtonElement).addEventListener("click", () => work.stop());

enliven((sample) => keys.filled(sample));

// The demo keys and the commands of the project exist only where `npm start` runs.
const isLocal = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
document.documentElement.classList.toggle("local", isLocal);

setInterval(() => {
  meters.tick();
  answerView.tick();
}, 250);
