import { element } from "./element.ts";

/** The options of Swagger UI that this page uses. Its bundle is a separate script. */
type SwaggerUi = (options: {
  readonly domNode: HTMLElement;
  readonly spec: unknown;
  readonly docExpansion: "list";
  readonly defaultModelsExpandDepth: number;
  readonly defaultModelRendering: "model";
  readonly supportedSubmitMethods: readonly [];
  readonly validatorUrl: null;
  readonly plugins: readonly unknown[];
}) => unknown;

const nothing = () => () => null;

/** Removes the parts that the page already has: title, server, and the field for the key. */
const ONLY_OPERATIONS = {
  wrapComponents: {
    InfoContainer: nothing,
    ServersContainer: nothing,
    authorizeBtn: nothing,
    authorizeOperationBtn: nothing,
    SchemesContainer: nothing,
  },
};

/** Shows the OpenAPI document in Swagger UI, without its console: the page has its own. */
export async function showReference(): Promise<void> {
  followColorScheme();
  const { SwaggerUIBundle } = window as unknown as { SwaggerUIBundle: SwaggerUi };
  const text = await (await fetch("/openapi.json")).text();
  const node = element("viewer", HTMLElement);
  node.replaceChildren();
  SwaggerUIBundle({
    domNode: node,
    spec: withoutUnsafeIntegers(text),
    docExpansion: "list",
    defaultModelsExpandDepth: 1,
    defaultModelRendering: "model",
    supportedSubmitMethods: [], // Swagger UI rounds int64 in answers.
    validatorUrl: null,
    plugins: [ONLY_OPERATIONS],
  });
}

/** Removes bounds above 2^53, which Swagger UI rounds; the descriptions have them in digits. */
function withoutUnsafeIntegers(text: string): unknown {
  return JSON.parse(text, (_, value: unknown) =>
    typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER ? undefined : value,
  );
}

/** Switches Swagger UI to dark mode, which it does not do by itself. */
function followColorScheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();
}
