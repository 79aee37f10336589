import { type ShjLanguage, type ShjToken, tokenize } from "@speed-highlight/core";
import type { Child } from "hono/jsx";
import { raw } from "hono/html";
import type { ResponseFacts } from "./reference.ts";
import { type Sample, SYNTAX } from "./samples.ts";

/** A section of the page. The `aside` is shown beside the text, or before its `rest`. */
export function Section(
  props: Readonly<{ id: string; title: string; aside?: Child; rest?: Child; children: Child }>,
) {
  const { id, title, aside, rest, children } = props;
  return (
    <section id={id} class={aside ? "split" : undefined} aria-labelledby={`${id}-title`}>
      <div class={aside ? "text" : undefined}>
        <h2 id={`${id}-title`}>{title}</h2>
        {children}
      </div>
      {aside && <div class="aside">{aside}</div>}
      {rest && <div class="text">{rest}</div>}
    </section>
  );
}

/** A line of Markdown whose only markup is inline code. */
export function Inline({ text }: { readonly text: string }) {
  return (
    <>{text.split("`").map((part, index) => (index % 2 === 0 ? part : <code>{part}</code>))}</>
  );
}

/** The heads of a table's columns. */
export function Columns({ titles }: { readonly titles: readonly string[] }) {
  return (
    <thead>
      <tr>
        {titles.map((title) => (
          <th>{title}</th>
        ))}
      </tr>
    </thead>
  );
}

/** Paragraphs of Markdown whose only markup is inline code. */
export function Paragraphs({ text }: { readonly text: string }) {
  return (
    <>
      {text.split(/\n{2,}/).map((paragraph) => (
        <p>
          <Inline text={paragraph} />
        </p>
      ))}
    </>
  );
}

interface CodeProps {
  readonly code: string;
  readonly syntax: ShjLanguage;
  readonly label: string;
  readonly copy?: boolean;
}

/** The kinds of words that have a colour. A colour for each kind would double the page. */
const COLOURED: ReadonlySet<ShjToken | undefined> = new Set(["cmnt", "kwd", "num", "str"]);

/** Highlighted code. Assistive technology reads the `label`. The script adds the copy button. */
export async function Code({ code, syntax, label, copy = false }: CodeProps) {
  let words = "";
  await tokenize(code, syntax, (word, kind) => {
    const text = word.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
    words += COLOURED.has(kind) ? `<i class=${kind}>${text}</i>` : text;
  });
  return (
    <div class="code" data-copy={copy || undefined}>
      <pre class={syntax} dir="ltr" tabindex={0} role="group" aria-label={label}>
        <code>{raw(words)}</code>
      </pre>
    </div>
  );
}

/** Tabs that work without a script: radio buttons of one name, each followed by its content. */
export function Tabs(
  props: Readonly<{ name: string; label: string; tabs: { title: string; content: Child }[] }>,
) {
  const { name, label, tabs } = props;
  return (
    <div class="tabs" role="group" aria-label={label}>
      {tabs.map(({ title, content }, index) => (
        <>
          <label>
            <input type="radio" name={name} value={title} checked={index === 0} />
            {title}
          </label>
          <div>{content}</div>
        </>
      ))}
    </div>
  );
}

export function Samples(props: { name: string; label: string; samples: readonly Sample[] }) {
  const { name, label, samples } = props;
  return (
    <Tabs
      name={`${name}-language`}
      label={`${label}: language`}
      tabs={samples.map(({ language, syntax, code }) => ({
        title: language,
        content: (
          <Code
            code={code}
            syntax={syntax ?? SYNTAX[language] ?? "java"}
            label={`${label} (${language})`}
            copy
          />
        ),
      }))}
    />
  );
}

/** The examples of an HTTP response: status line, headers that some responses lack, and body. */
export function HttpExamples({ response }: { readonly response: ResponseFacts | undefined }) {
  return (
    <>
      {response?.examples.map(({ code, body }) => {
        const lines = [
          `HTTP/1.1 ${response.status} ${response.reason}`,
          ...(body === undefined ? [] : ["Content-Type: application/json"]),
          ...response.headers
            .filter(({ isCommon }) => !isCommon)
            .map(({ name, example }) => `${name}: ${example}`),
          ...(body === undefined ? [] : ["", body]),
        ];
        const label = `Answer ${code ?? response.status}`;
        return <Code code={lines.join("\n")} syntax="http" label={label} />;
      })}
    </>
  );
}
