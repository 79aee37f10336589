/** How long a button says that it has copied, in milliseconds. */
const THANKS_MS = 1_500;

/** Copies a text to the clipboard, and says so on the button that was pressed. */
export async function copyText(button: HTMLButtonElement, text: string): Promise<void> {
  const label = (button.dataset["label"] ??= button.textContent);
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    // Browsers refuse the clipboard to a page that came over plain HTTP from another host.
    button.textContent = "Not copied: select it";
  }
  setTimeout(() => (button.textContent = label), THANKS_MS);
}
