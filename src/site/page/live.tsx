import { bans } from "../../openapi/description.ts";
import type { Operation } from "./reference.ts";

/** Sends the request of an operation. The script shows the answer below the form. */
export function SendForm({ operation }: { readonly operation: Operation }) {
  const { operationId: id, method, path, summary, parameters, responses } = operation;
  const [inPath] = parameters.filter((parameter) => parameter.in === "path");
  const body = responses.find(({ status }) => status === 200)?.examples[0]?.body;
  return (
    <form
      class="send needs-script"
      novalidate
      data-method={method}
      data-path={path}
      data-list={body?.startsWith("[") || undefined}
    >
      {inPath ? (
        <div class="row field">
          <label for={`${id}-${inPath.name}`}>{inPath.name}</label>
          <input
            id={`${id}-${inPath.name}`}
            autocomplete="off"
            placeholder={`such as ${String(inPath.example)}`}
          />
        </div>
      ) : (
        <span class="note field">A real request, with the key above.</span>
      )}
      <button type="submit" class="primary" aria-label={`Send: ${summary}`}>
        Send
      </button>
    </form>
  );
}

/** Provokes a refusal. Only on the page of `npm start`, where nobody else uses the key. */
export function Triggers() {
  return (
    <div class="local-only needs-script">
      <h3>See a refusal</h3>
      <p class="note">With the key above, on your own machine.</p>
      <div id="triggers" class="row" data-grace-ms={bans.graceMs}>
        <button type="button" id="trigger-limit">
          Trigger a 429
        </button>
        <button type="button" id="trigger-ban">
          Trigger a ban
        </button>
      </div>
    </div>
  );
}

/** What the script needs on every page: the panel of an answer as a template, and a dialog. */
export function LiveParts() {
  return (
    <>
      <template id="live">
        <div class="live">
          <div class="outcome" role="status"></div>
          <p class="wait" hidden>
            <span role="timer"></span>
          </p>
          <p class="busy row" hidden>
            <span class="note"></span>
            <button type="button">Stop</button>
          </p>
          <div class="orders" hidden>
            <div class="row">
              <p class="note" aria-live="polite"></p>
              <label class="row">
                Find an id <input inputmode="numeric" autocomplete="off" />
              </label>
            </div>
            <div class="scroll" tabindex={0} role="group" aria-label="Orders">
              <ul></ul>
            </div>
          </div>
          <details class="sent" hidden>
            <summary>As it was sent</summary>
            <pre dir="ltr" tabindex={0} role="group" aria-label="Body"></pre>
            <p class="note"></p>
            <button type="button">Download</button>
            <dl></dl>
          </details>
        </div>
      </template>
      <dialog id="confirm" aria-labelledby="confirm-title">
        <form method="dialog">
          <h2 id="confirm-title"></h2>
          <p id="confirm-text"></p>
          <div class="row end">
            <button id="confirm-keep" value="keep" autofocus></button>
            <button id="confirm-go" value="go" class="danger"></button>
          </div>
        </form>
      </dialog>
    </>
  );
}
