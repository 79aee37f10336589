import type { Child } from "hono/jsx";
import { HttpAnswer, Samples, Tabs } from "./code.tsx";
import { Inline, Prose } from "./prose.tsx";
import type { Answer, Field, Operation, Reference } from "./reference.ts";
import type { Sample } from "./samples.ts";

interface OperationSectionProps {
  readonly reference: Reference;
  readonly operation: Operation;
  readonly samples: readonly Sample[];
  /** A warning that is shown above the parameters. */
  readonly warning: Child;
  /** The content below the parameters, such as the fields of the response body. */
  readonly children?: Child;
}

/** The section of an operation: its description, parameters and responses, beside code samples. */
export function OperationSection(props: OperationSectionProps) {
  const { reference, operation, samples, warning, children } = props;
  const { id, method, path, summary, description, parameters, answers } = operation;
  return (
    <section id={id} class="split" aria-labelledby={`${id}-title`}>
      <div class="text">
        <p class="endpoint">
          <b class={`method ${method.toLowerCase()}`}>{method}</b>{" "}
          <code>{`${reference.basePath}${path}`}</code>
        </p>
        <h2 id={`${id}-title`}>{summary}</h2>
        <Prose text={description} />
        {warning}
        <h3>Parameters</h3>
        <Fields prefix={id} fields={parameters} />
        {children}
        <h3>Answers</h3>
        <Answers operation={operation} />
      </div>
      <div class="aside">
        <Samples name={id} label={summary} samples={samples} origin={reference.origin} />
        <Tabs
          name={`${id}-answer`}
          label={`${summary}: status of the answer`}
          tabs={answers.map((answer) => ({
            value: String(answer.status),
            title: String(answer.status),
            content: answer.examples.map((example) => (
              <HttpAnswer
                answer={answer}
                example={example}
                hasHeader={(name) => !reference.commonHeaders.has(name)}
              />
            )),
          }))}
        />
        <p class="note">
          Every answer also has the <a href="#headers">headers of every answer</a>.
        </p>
      </div>
    </section>
  );
}

/** A list of the parameters of a request, or of the fields of a response body. */
export function Fields(props: { readonly prefix: string; readonly fields: readonly Field[] }) {
  const { prefix, fields } = props;
  return (
    <dl class="fields">
      {fields.map(({ name, place, type, required, description, example }) => (
        <div id={`${prefix}.${name}`}>
          <dt>
            <code>{name}</code> <span class="type">{type}</span>
            {place !== null && <span class="type">in the {place}</span>}
            {required && <span class="required">required</span>}
          </dt>
          <dd>
            <Inline text={description} />
            {example !== null && (
              <span class="example">
                Example: <code>{example}</code>
              </span>
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function Answers({ operation }: { readonly operation: Operation }) {
  return (
    <dl class="answers">
      {operation.answers.map((answer) => (
        <div id={`${operation.id}-${answer.status}`}>
          <dt>
            <Status answer={answer} />
          </dt>
          <dd>
            <Meaning answer={answer} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The description of a successful response, or links to the codes in the table of errors. */
function Meaning({ answer }: { readonly answer: Answer }) {
  if (answer.status < 400) return <Inline text={answer.description} />;
  return (
    <>
      {answer.examples.map(({ code }, index) => (
        <>
          {index > 0 && ", "}
          <a href={`#${code}`}>
            <code>{code}</code>
          </a>
        </>
      ))}
    </>
  );
}

/** The status of a response with its reason phrase. */
export function Status({ answer }: { readonly answer: Answer }) {
  return (
    <span class={`status s${Math.floor(answer.status / 100)}`}>
      <b>{answer.status}</b> {answer.reason}
    </span>
  );
}
