/** How long a button shows "Copied", in milliseconds. */
const THANKS_MS = 1_500;

/** Copies a text to the clipboard, and shows the result on the button that was pressed. */
export async function copyText(button: HTMLButtonElement, text: string): Promise<void> {
  const label = (button.dataset["label"] ??= button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // On pages that were loaded over plain HTTP, browsers block the clipboard, except on localhost.
    button.textContent = "Not copied: select it";
  }
  setTimeout(() => (button.textContent = label), THANKS_MS);
}
