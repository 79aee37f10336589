import type { Reference } from "./reference.ts";

/** What stays in view: the key, which is entered only here, and what is left of its limits. */
export function Header({ title, version }: Pick<Reference, "title" | "version">) {
  return (
    <header class="top">
      <p class="brand">
        <a href="#main">{title} API</a> <span class="version">{version}</span>
      </p>
      <form id="key-form" class="row needs-script" novalidate>
        <label for="key">API key</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          autocapitalize="off"
          placeholder="sord_…"
          aria-describedby="key-note"
        />
        <button type="button" id="show-key" aria-pressed="false">
          Show
        </button>
      </form>
      <p id="key-note" class="note needs-script" role="status"></p>
      <div class="meters needs-script" role="group" aria-label="What is left of the key's limits">
        <Meter window="minute" title="Minute" />
        <Meter window="day" title="Day" />
      </div>
      <p id="wait" class="needs-script" hidden>
        <b></b> <span role="timer"></span>
      </p>
    </header>
  );
}

function Meter({ window, title }: { readonly window: string; readonly title: string }) {
  return (
    <div class="meter" data-window={window}>
      <p>
        <b>{title}</b> <span class="figure">–</span> <span class="note"></span>
      </p>
      <div
        class="track"
        role="meter"
        aria-label={`Requests left: ${title.toLowerCase()}`}
        aria-valuemin={0}
        aria-valuemax={0}
        aria-valuenow={0}
        aria-valuetext="unknown without a key"
      >
        <div class="fill"></div>
      </div>
    </div>
  );
}
