import type { Field } from "../../openapi/read-document.ts";
import { bans } from "../../openapi/description.ts";

/** The console, with which readers send requests. Its table of orders has a column per field. */
export function ConsoleSection({ fields }: { readonly fields: readonly Field[] }) {
  return (
    <section id="try" class="console" aria-labelledby="try-title">
      <div class="console-head">
        <h2 id="try-title">Try it</h2>
        <p class="note">
          These requests are real. They reach the service that this page comes from, and they count
          against your key.
        </p>
      </div>
      <p class="scripting-none">
        The console needs JavaScript. Everything else on this page does without.
      </p>

      <div id="controls" class="controls needs-script">
        <KeyForm id="list" field="key" />
        <form id="cancel" class="control" novalidate>
          <div class="field">
            <label for="order-id">orderId</label>
            <input
              id="order-id"
              inputmode="text"
              autocomplete="off"
              placeholder="such as 1001"
              aria-describedby="order-id-note"
            />
          </div>
          <button type="submit" data-sends="cancel">
            Cancel order
          </button>
        </form>
        <p id="order-id-note" class="note" role="alert"></p>
      </div>
      <div class="triggers needs-script">
        <span class="note">What does a refusal look like?</span>
        <button id="trigger-limit" type="button" data-sends="limit">
          Trigger a 429
        </button>
        <button id="trigger-ban" type="button" class="local-only" data-sends="ban">
          Trigger a ban
        </button>
        <span id="busy" class="row" hidden>
          <span id="progress" class="note"></span>
          <button id="stop" type="button">
            Stop
          </button>
        </span>
      </div>

      <div id="results" class="results needs-script" tabindex={-1} data-grace-ms={bans.graceMs}>
        <div id="meters" class="meters" role="group" aria-label="What is left of your limits">
          <Meter window="minute" title="Minute" label="Requests left this minute" />
          <Meter window="day" title="Day" label="Requests left today" />
        </div>
        <p id="meters-subject" class="note"></p>

        <div id="wait" class="wait" hidden>
          <p class="wait-title" id="wait-title"></p>
          <p class="wait-count">
            <span id="wait-time" role="timer"></span>
          </p>
          <p class="wait-meaning" id="wait-meaning"></p>
        </div>

        <div id="summary" role="status" aria-live="polite" aria-atomic="true">
          <p class="meaning">Paste a key and list the orders. Answers appear here.</p>
        </div>

        <div class="answer-columns">
          <div id="orders" hidden>
            <div class="answer-head">
              <h3 id="orders-title">Orders</h3>
              <label class="row">
                Find an id <input id="find-id" inputmode="numeric" autocomplete="off" />
              </label>
            </div>
            <p class="note" id="orders-note" aria-live="polite"></p>
            <div class="scroll" tabindex={0} role="group" aria-labelledby="orders-title">
              <table role="table">
                <thead>
                  <tr role="row">
                    {fields.map(({ name }) => (
                      <th role="columnheader">{name}</th>
                    ))}
                    <th role="columnheader">
                      <span class="unseen">Cancel</span>
                    </th>
                  </tr>
                </thead>
                <tbody></tbody>
              </table>
            </div>
          </div>

          <div id="answer" hidden>
            <div class="answer-head">
              <h3>As it was sent</h3>
              <span class="row">
                <button type="button" id="copy-body">
                  Copy body
                </button>
                <button type="button" id="download" hidden>
                  Download
                </button>
                <button type="button" id="copy-curl">
                  Copy as curl
                </button>
              </span>
            </div>
            <pre id="body" tabindex={0} role="group" aria-label="Body"></pre>
            <p class="note" id="body-note"></p>
            <details open>
              <summary>Headers</summary>
              <dl id="headers-sent"></dl>
            </details>
          </div>
        </div>
      </div>

      <dialog id="confirm" aria-labelledby="confirm-title">
        <form method="dialog">
          <h2 id="confirm-title"></h2>
          <p id="confirm-text"></p>
          <div class="row end">
            <button value="keep" autofocus>
              Keep it
            </button>
            <button id="confirm-go" value="go" class="danger"></button>
          </div>
        </form>
      </dialog>
    </section>
  );
}

/** Lists the orders with an API key. The script keeps the same key in all these forms. */
export function KeyForm({ id, field }: { readonly id: string; readonly field: string }) {
  return (
    <form id={id} class="control needs-script">
      <div class="field">
        <label for={field}>API key</label>
        <div class="row">
          <input
            id={field}
            type="password"
            autocomplete="off"
            spellcheck={false}
            autocapitalize="off"
            placeholder="sord_…"
            data-key-field
          />
          <button type="button" aria-pressed="false" data-show>
            Show
          </button>
        </div>
      </div>
      <button type="submit" class="primary" data-sends="list">
        List orders
      </button>
    </form>
  );
}

function Meter({ window, title, label }: { window: string; title: string; label: string }) {
  return (
    <div class="meter" data-window={window}>
      <p class="meter-title">
        <span>{title}</span>
        <span class="figure">–</span>
      </p>
      <div
        class="track"
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={0}
        aria-valuenow={0}
        aria-valuetext="unknown until the first answer"
      >
        <div class="fill"></div>
      </div>
      <p class="note">known after the first answer</p>
    </div>
  );
}
