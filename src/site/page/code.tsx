import { highlightText, type ShjLanguage } from "@speed-highlight/core";
import type { Child } from "hono/jsx";
import { raw } from "hono/html";
import type { Answer, Example } from "./reference.ts";
import { KEY, ORIGIN, type Sample } from "./samples.ts";

/**
 * The default address of the service in the samples. In browsers, a script replaces the address by
 * the origin of the page.
 */
export const LOCAL_ORIGIN = "http://localhost:8787";

interface CodeProps {
  readonly code: string;
  readonly syntax: ShjLanguage;
  /** The name of the code sample for assistive technology. */
  readonly label: string;
  readonly origin?: string | null;
  readonly copy?: boolean;
}

/**
 * Highlighted code. The script of the page puts the page's address and the reader's key into it.
 */
export async function Code({ code, syntax, label, origin, copy = false }: CodeProps) {
  const html = (await highlightText(code, syntax, false))
    .replaceAll(KEY, `<span data-key>${KEY}</span>`)
    .replaceAll(ORIGIN, `<span data-origin>${origin ?? LOCAL_ORIGIN}</span>`);
  return (
    <div class="code">
      <pre class={syntax} tabindex={0} role="region" aria-label={label}>
        <code>{raw(html)}</code>
      </pre>
      {copy && (
        <button type="button" class="copy" data-copy aria-label={`Copy: ${label}`}>
          Copy
        </button>
      )}
    </div>
  );
}

interface Tab {
  readonly value: string;
  readonly title: string;
  readonly content: Child;
}

interface TabsProps {
  /** The name of the group of radio buttons, unique in the page. */
  readonly name: string;
  readonly label: string;
  readonly tabs: readonly Tab[];
}

/** Tabs that work without a script. Each tab is a radio button, followed by its content. */
export function Tabs({ name, label, tabs }: TabsProps) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {tabs.map(({ value, title, content }, index) => (
        <>
          <label class="tab">
            <input type="radio" name={name} value={value} checked={index === 0} />
            {title}
          </label>
          <div class="pane">{content}</div>
        </>
      ))}
    </div>
  );
}

interface SamplesProps {
  readonly name: string;
  readonly label: string;
  readonly samples: readonly Sample[];
  readonly origin: string | null;
}

/** The samples of one request, with a tab for each language. */
export function Samples({ name, label, samples, origin }: SamplesProps) {
  return (
    <Tabs
      name={`${name}-language`}
      label={`${label}: language`}
      tabs={samples.map(({ language, syntax, code }) => ({
        value: language,
        title: language,
        content: (
          <Code code={code} syntax={syntax} label={`${label} (${language})`} origin={origin} copy />
        ),
      }))}
    />
  );
}

interface HttpAnswerProps {
  readonly answer: Answer;
  readonly example: Example;
  /** Returns whether to show a header. */
  readonly hasHeader: (name: string) => boolean;
}

/** An example of an HTTP response, with its status line, headers and body. */
export function HttpAnswer({ answer, example, hasHeader }: HttpAnswerProps) {
  const { status, reason, headers } = answer;
  const lines = [
    `HTTP/1.1 ${status} ${reason}`,
    ...(example.body === null ? [] : ["Content-Type: application/json"]),
    ...headers
      .filter(({ name }) => hasHeader(name))
      .map((header) => `${header.name}: ${header.example}`),
  ];
  return (
    <Code
      code={[...lines, ...(example.body === null ? [] : ["", example.body])].join("\n")}
      syntax="http"
      label={`Answer ${example.code ?? status}`}
    />
  );
}
