import { element } from "./element.ts";

/** What this page uses of Swagger UI, whose bundle is a script of its own. */
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

/** Leaves what the page itself says: the title, the server, and the place to put a key. */
const ONLY_OPERATIONS = {
  wrapComponents: {
    InfoContainer: nothing,
    ServersContainer: nothing,
    authorizeBtn: nothing,
    authorizeOperationBtn: nothing,
    SchemesContainer: nothing,
  },
};

/** Shows the document in Swagger UI, for reading; the console above it is for trying. */
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
    supportedSubmitMethods: [], // It rounds int64 when it shows an answer.
    validatorUrl: null,
    plugins: [ONLY_OPERATIONS],
  });
}

/** Bounds beyond 2^53 would be shown rounded; the descriptions have their digits. */
function withoutUnsafeIntegers(text: string): unknown {
  return JSON.parse(text, (_, value: unknown) =>
    typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER ? undefined : value,
  );
}

/** Swagger UI goes dark by a class, not by itself. */
function followColorScheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const follow = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
  dark.addEventListener("change", follow);
  follow();
}
