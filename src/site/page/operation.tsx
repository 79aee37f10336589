import type { Child } from "hono/jsx";
import { Columns, HttpExamples, Inline, Paragraphs, Samples, Section, Tabs } from "./elements.tsx";
import type { Field } from "../../openapi/read-document.ts";
import { SendForm } from "./live.tsx";
import type { Operation, Reference, ResponseFacts } from "./reference.ts";
import type { Sample } from "./samples.ts";

type OperationProps = Pick<Reference, "isEverywhere"> &
  Readonly<{ operation: Operation; samples: readonly Sample[]; children?: Child }>;

/** The section of an operation. The `children` are above its parameters. */
export function OperationSection({ operation, isEverywhere, samples, children }: OperationProps) {
  const { operationId: id, method, path, summary, description, parameters, responses } = operation;
  const fields = responses.find(({ status }) => status === 200)?.fields ?? [];
  return (
    <Section
      id={id}
      title={summary}
      aside={
        <>
          <div class="call">
            <Samples name={id} label={summary} samples={samples} />
            <SendForm operation={operation} />
          </div>
          <Tabs
            name={`${id}-answer`}
            label={`${summary}: documented answers by status`}
            tabs={tabsOf(responses.filter((response) => !isEverywhere(response)))}
          />
          <p class="note">
            Every operation has these <a href="#headers">headers</a> and{" "}
            <a href="#errors">errors</a>, too.
          </p>
        </>
      }
      rest={
        <>
          <h3>Parameters</h3>
          <Fields prefix={id} fields={parameters} />
          {fields.length > 0 && (
            <>
              <h3>Fields of the answer</h3>
              <Fields prefix={`${id}-200`} fields={fields} />
            </>
          )}
          <h3>Answers</h3>
          <dl class="answers">
            {responses.map((response) => (
              <div id={`${id}-${response.status}`}>
                <dt>
                  <Status response={response} />
                </dt>
                <dd>
                  {response.status < 400 ? (
                    <Inline text={response.description} />
                  ) : (
                    response.examples.map(({ code }) => [<CodeLink code={code} />, " "])
                  )}
                </dd>
              </div>
            ))}
          </dl>
        </>
      }
    >
      <p>
        <b class={`method ${method.toLowerCase()}`}>{method}</b> <code>{path}</code>
      </p>
      <Paragraphs text={description} />
      {children}
    </Section>
  );
}

/** A tab for the examples of each response. */
export function tabsOf(responses: readonly ResponseFacts[]) {
  return responses.map((response) => ({
    title: String(response.status),
    content: <HttpExamples response={response} />,
  }));
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
  if (Array.isArray(type)) return type.join(" or ");
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

export function Status({ response }: { readonly response: ResponseFacts }) {
  return (
    <span class={`status s${Math.floor(response.status / 100)}`}>
      <b>{response.status}</b> {response.reason}
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
      {errors.map((response) => (
        <tbody>
          <tr class="group">
            <th colspan={2} scope="rowgroup">
              <Status response={response} />
              <span class="meaning">
                <Inline text={response.description} />
              </span>
            </th>
          </tr>
          {response.examples.map(({ code, message }) => (
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
