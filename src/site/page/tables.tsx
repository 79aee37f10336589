import { Status } from "./operation.tsx";
import { Inline } from "./prose.tsx";
import type { Reference } from "./reference.ts";

/** The table of all response headers. */
export function HeaderTable({ reference }: { readonly reference: Reference }) {
  return (
    <table class="reference-table">
      <thead>
        <tr>
          <th>Header</th>
          <th>Meaning</th>
          <th>On</th>
        </tr>
      </thead>
      <tbody>
        {reference.headers.map(({ name, description, required, example, statuses }) => (
          <tr id={`header.${name}`}>
            <th scope="row">
              <code>{name}</code>
            </th>
            <td>
              <Inline text={description} />
              <span class="example">
                Example: <code>{example}</code>
              </span>
            </td>
            <td>
              {!reference.commonHeaders.has(name)
                ? statuses.join(", ")
                : required
                  ? "every answer"
                  : "every answer, if set"}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The table of all errors. The code of an error is the anchor of its row. */
export function ErrorTable({ reference }: { readonly reference: Reference }) {
  return (
    <table class="reference-table errors">
      <thead>
        <tr>
          <th>Code</th>
          <th>Message, for example</th>
        </tr>
      </thead>
      {reference.errors.map((answer) => (
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
            <tr id={code ?? undefined}>
              <th scope="row">
                <a href={`#${code}`}>
                  <code>{code}</code>
                </a>
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
