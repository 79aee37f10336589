import { type Answer, type ApiRequest, errorIn } from "./answer.ts";
import { element, made } from "./element.ts";

/** The response headers that are shown first, in this order and spelling. */
const FIRST_HEADERS = [
  "Retry-After",
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit",
  "RateLimit-Policy",
  "X-Request-Id",
  "ETag",
  "WWW-Authenticate",
];

/** Explains each status. The text for 429 names no seconds, because the page shows a countdown. */
const MEANINGS: Readonly<Record<number, string>> = {
  200: "Here are the orders.",
  204: "The order is cancelled. The next list lacks it.",
  304: "The list has not changed. The request still counts.",
  429: "The request was refused and not counted.",
};

/** Shows the latest response: its status, duration, explanation, body and headers. */
export class AnswerView {
  readonly #summary = element("summary", HTMLElement);
  readonly #answer = element("answer", HTMLElement);
  readonly #body = element("body", HTMLElement);
  readonly #bodyNote = element("body-note", HTMLElement);
  readonly #headers = element("headers-sent", HTMLElement);
  /** The request whose response is shown; `null` if no response is shown. */
  request: ApiRequest | null = null;

  get body(): string {
    return this.#body.textContent;
  }

  show({ request, status, statusText, headers, body, isCut, tookMs }: Answer): void {
    this.request = request;
    const line = made("p", "", "status-line");
    line.dataset["kind"] = status < 400 ? "good" : "bad";
    line.append(
      made("b", `${status} ${statusText}`.trim()),
      made("span", `${request.method} ${request.path}`),
      made("span", `${Math.max(1, Math.round(tookMs)).toLocaleString("en")} ms`),
    );
    const unknown = "This page does not know this answer of the service.";
    this.say(MEANINGS[status] ?? errorIn(body)?.message ?? unknown);
    this.#summary.prepend(line);
    this.#body.textContent = body;
    this.#bodyNote.hidden = !isCut;
    this.#bodyNote.textContent = `Only the first ${body.length.toLocaleString("en")} characters are read and shown here.`;
    const first = FIRST_HEADERS.filter((name) => headers.has(name));
    const others = [...headers.keys()].filter(
      (name) => !first.some((one) => one.toLowerCase() === name),
    );
    // Browsers report header names in lower case.
    const spelled = (name: string) => name.replace(/^[a-z]|-[a-z]/g, (part) => part.toUpperCase());
    this.#headers.replaceChildren(
      ...[...first, ...others.map(spelled)].flatMap((name) => [
        made("dt", name),
        made("dd", headers.get(name) ?? ""),
      ]),
    );
    this.#answer.hidden = false;
  }

  /** Replaces the status and explanation of a response by a sentence. */
  say(text: string): void {
    this.#summary.replaceChildren(made("p", text, "meaning"));
  }

  showFailure(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.hide();
    this.say(`No answer came (${reason}). Is the service running?`);
  }

  hide(): void {
    this.request = null;
    this.#answer.hidden = true;
  }
}
