import type { Answer, ApiRequest } from "./answer.ts";
import { element, made } from "./element.ts";
import { meaningOf } from "./meaning.ts";

/** The response headers that are shown first, in this order. */
const FIRST_HEADERS = [
  "retry-after",
  "x-ratelimit-limit",
  "x-ratelimit-remaining",
  "x-ratelimit-reset",
  "ratelimit",
  "ratelimit-policy",
  "x-request-id",
  "etag",
  "www-authenticate",
];

/** Header names in their usual spelling, because browsers report header names in lower case. */
const SPELLING: Readonly<Record<string, string>> = {
  etag: "ETag",
  ratelimit: "RateLimit",
  "ratelimit-policy": "RateLimit-Policy",
  "www-authenticate": "WWW-Authenticate",
  "x-ratelimit-limit": "X-RateLimit-Limit",
  "x-ratelimit-remaining": "X-RateLimit-Remaining",
  "x-ratelimit-reset": "X-RateLimit-Reset",
};

/** Shows the latest response: its status, duration, explanation, body and headers. */
export class AnswerView {
  readonly #summary = element("summary", HTMLElement);
  readonly #answer = element("answer", HTMLElement);
  readonly #body = element("body", HTMLElement);
  readonly #bodyNote = element("body-note", HTMLElement);
  readonly #headers = element("headers-sent", HTMLElement);
  #request: ApiRequest | null = null;

  /** The request whose response is shown; `null` if no response is shown. */
  get request(): ApiRequest | null {
    return this.#request;
  }

  get body(): string {
    return this.#body.textContent;
  }

  show(answer: Answer): void {
    const { request, status, statusText, tookMs } = answer;
    this.#request = request;
    const line = made("p");
    line.className = "status-line";
    line.dataset["kind"] = status < 400 ? "good" : "bad";
    line.append(
      made("b", `${status} ${statusText}`.trim()),
      made("span", `${request.method} ${request.path}`),
      made("span", `${Math.max(1, Math.round(tookMs)).toLocaleString("en")} ms`),
    );
    this.#summary.replaceChildren(line, meaning(meaningOf(answer)));
    this.#body.textContent = answer.body;
    this.#bodyNote.hidden = !answer.isCut;
    this.#bodyNote.textContent = `Only the first ${answer.body.length.toLocaleString("en")} characters are read and shown here.`;
    this.#headers.replaceChildren(
      ...sortedHeaders(answer.headers).flatMap(([name, value]) => [
        made("dt", spelled(name)),
        made("dd", value),
      ]),
    );
    this.#answer.hidden = false;
  }

  /** Replaces the status and explanation of a response by a sentence. */
  say(text: string): void {
    this.#summary.replaceChildren(meaning(text));
  }

  /** Shows that a request failed without a response. */
  showFailure(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.hide();
    this.say(`No answer came (${reason}). Is the service running?`);
  }

  hide(): void {
    this.#request = null;
    this.#answer.hidden = true;
  }
}

function meaning(text: string): HTMLElement {
  const paragraph = made("p", text);
  paragraph.className = "meaning";
  return paragraph;
}

function sortedHeaders(headers: Headers): [string, string][] {
  const rank = (name: string) => (FIRST_HEADERS.indexOf(name) + 100) % 100;
  return [...headers].toSorted(
    ([a], [b]) =>
      (FIRST_HEADERS.includes(a) ? rank(a) : 100) - (FIRST_HEADERS.includes(b) ? rank(b) : 100),
  );
}

function spelled(name: string): string {
  return SPELLING[name] ?? name.replace(/(?:^|-)[a-z]/g, (letters) => letters.toUpperCase());
}
