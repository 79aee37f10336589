import type { Child } from "hono/jsx";
import { Columns, HttpAnswers, Inline, Paragraphs, Samples, Section, Tabs } from "./elements.tsx";
import type { Field } from "../../openapi/read-document.ts";
import type { Answer, Operation, Reference } from "./reference.ts";
import type { Sample } from "./samples.ts";

/** The section of an operation. The `children` are above its parameters. */
export function OperationSection(props: {
  readonly operation: Operation;
  readonly samples: readonly Sample[];
  readonly children: Child;
}) {
  const { operation, samples, children } = props;
  const { operationId: id, method, path, summary, description, parameters, answers } = operation;
  return (
    <Section
      id={id}
      title={summary}
      aside={
        <>
          <Samples name={id} label={summary} samples={samples} />
          <Tabs
            name={`${id}-answer`}
            label={`${summary}: status of the answer`}
            tabs={answers.map((answer) => ({
              title: String(answer.status),
              content: <HttpAnswers answer={answer} />,
            }))}
          />
          <p class="note">
            Every answer also has the <a href="#headers">headers of every answer</a>.
          </p>
        </>
      }
    >
      <p>
        <b class={`method ${method.toLowerCase()}`}>{method}</b> <code>{path}</code>
      </p>
      <Paragraphs text={description} />
      {children}
      <h3>Parameters</h3>
      <Fields prefix={id} fields={parameters} />
      <h3>Answers</h3>
      <dl class="answers">
        {answers.map((answer) => (
          <div id={`${id}-${answer.status}`}>
            <dt>
              <Status answer={answer} />
            </dt>
            <dd>
              {answer.status < 400 ? (
                <Inline text={answer.description} />
              ) : (
                answer.examples.map(({ code }) => [<CodeLink code={code} />, " "])
              )}
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

/** The parameters of a request, or the fields of a response body. */
export function Fields({ prefix, fields }: { prefix: string; fields: readonly Field[] }) {
  return (
    <dl class="fields">
      {fields.map(({ name, in: place, schema, required, description, example }) => (
        <div id={`${prefix}.${name}`}>
          <dt>
            <code>{name}</code> <span class="type">{typeOf(schema)}</span>
            {place && <span class="type">in the {place}</span>}
            {required && <span class="type required">required</span>}
          </dt>
          <dd>
            <Inline text={description} />
            {example !== undefined && <ExampleValue value={example} />}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function typeOf({ type, format, anyOf }: Field["schema"]): string {
  if (anyOf !== undefined) return anyOf.map(typeOf).join(" or ");
  return format ?? String(type);
}

function ExampleValue({ value }: { readonly value: Field["example"] }) {
  const code = <code>{String(value)}</code>;
  return <span class="example">Example: {code}</span>;
}

export function CodeLink({ code }: { readonly code: string | undefined }) {
  return (
    <a href={`#${code}`}>
      <code>{code}</code>
    </a>
  );
}

function Status({ answer }: { readonly answer: Answer }) {
  return (
    <span class={`status s${Math.floor(answer.status / 100)}`}>
      <b>{answer.status}</b> {answer.reason}
    </span>
  );
}

export function HeaderTable({ headers }: Pick<Reference, "headers">) {
  return (
    <table class="reference-table">
      <Columns titles={["Header", "Meaning", "On"]} />
      <tbody>
        {headers.map(({ name, description, required, example, isCommon, statuses }) => (
          <tr id={`header.${name}`}>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td>
              <Inline text={description} />
              <ExampleValue value={example} />
            </td>
            <td>{isCommon ? `every answer${required ? "" : ", if set"}` : statuses.join(", ")}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function ErrorTable({ errors }: Pick<Reference, "errors">) {
  return (
    <table class="reference-table errors">
      <Columns titles={["Code", "Message, for example"]} />
      {errors.map((answer) => (
        <tbody>
          <tr class="group">
            <th colspan={2} scope="rowgroup">
              <Status answer={answer} />
              <span class="meaning">
                <Inline text={answer.description} />
              </span>
            </th>
          </tr>
          {answer.examples.map(({ code, message }) => (
            <tr id={code}>
              <th scope="row">
                <CodeLink code={code} />
              </th>
              <td>
                <Inline text={message ?? ""} />
              </td>
            </tr>
          ))}
        </tbody>
      ))}
    </table>
  );
}
