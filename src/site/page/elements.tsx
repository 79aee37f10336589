import { highlightText, type ShjLanguage } from "@speed-highlight/core";
import type { Child } from "hono/jsx";
import { raw } from "hono/html";
import type { Answer } from "./reference.ts";
import { type Sample, SYNTAX } from "./samples.ts";

interface SectionProps {
  readonly id: string;
  readonly title: string;
  readonly above?: Child;
  readonly aside?: Child;
  readonly children: Child;
}

/** A section of the page. `above` is shown above the title, and `aside` beside the text. */
export function Section({ id, title, above, aside, children }: SectionProps) {
  const text = (
    <>
      {above}
      <h2 id={`${id}-title`}>{title}</h2>
      {children}
    </>
  );
  return (
    <section id={id} class={aside ? "split" : undefined} aria-labelledby={`${id}-title`}>
      {aside ? <div class="text">{text}</div> : text}
      {aside && <div class="aside">{aside}</div>}
    </section>
  );
}

/** A line of Markdown whose only markup is inline code. */
export function Inline({ text }: { readonly text: string }) {
  return (
    <>{text.split("`").map((part, index) => (index % 2 === 0 ? part : <code>{part}</code>))}</>
  );
}

interface CodeProps {
  readonly code: string;
  readonly syntax: ShjLanguage;
  readonly label: string;
  readonly copy?: boolean;
}

/** Highlighted code. Assistive technology reads the `label`. */
export async function Code({ code, syntax, label, copy = false }: CodeProps) {
  return (
    <div class="code">
      <pre class={syntax} tabindex={0} role="group" aria-label={label}>
        <code>{raw(await highlightText(code, syntax, false))}</code>
      </pre>
      {copy && (
        <button type="button" class="copy" data-copy aria-label={`Copy: ${label}`}>
          Copy
        </button>
      )}
    </div>
  );
}

interface TabsProps {
  readonly name: string;
  readonly label: string;
  readonly tabs: readonly { readonly title: string; readonly content: Child }[];
}

/** Tabs that work without a script: radio buttons of one name, each followed by its content. */
export function Tabs({ name, label, tabs }: TabsProps) {
  return (
    <div class="tabs" role="group" aria-label={label}>
      {tabs.map(({ title, content }, index) => (
        <>
          <label class="tab">
            <input type="radio" name={name} value={title} checked={index === 0} />
            {title}
          </label>
          <div class="pane">{content}</div>
        </>
      ))}
    </div>
  );
}

interface SamplesProps extends Omit<TabsProps, "tabs"> {
  readonly samples: readonly Sample[];
}

export function Samples({ name, label, samples }: SamplesProps) {
  return (
    <Tabs
      name={`${name}-language`}
      label={`${label}: language`}
      tabs={samples.map(({ language, code }) => ({
        title: language,
        content: (
          <Code
            code={code}
            syntax={SYNTAX[language] ?? "java"}
            label={`${label} (${language})`}
            copy
          />
        ),
      }))}
    />
  );
}

interface HttpAnswersProps {
  readonly answer: Answer | undefined;
  /** True shows the required headers. False shows the headers that some responses lack. */
  readonly isComplete?: boolean;
  /** If set, shows only the example of the error with this code. */
  readonly code?: string;
}

/** The examples of an HTTP response, each with its status line, headers and body. */
export function HttpAnswers(props: HttpAnswersProps) {
  const { answer, isComplete = false, code: only } = props;
  const examples = answer?.examples.filter(({ code }) => only === undefined || code === only);
  return (
    <>
      {examples?.map(({ code, body }) => {
        const lines = [
          `HTTP/1.1 ${answer?.status} ${answer?.reason}`,
          ...(body === undefined ? [] : ["Content-Type: application/json"]),
          ...(answer?.headers ?? [])
            .filter(({ isCommon, required }) => (isComplete ? required : !isCommon))
            .map(({ name, example }) => `${name}: ${example}`),
          ...(body === undefined ? [] : ["", body]),
        ];
        const label = `Answer ${code ?? answer?.status}`;
        return <Code code={lines.join("\n")} syntax="http" label={label} />;
      })}
    </>
  );
}
