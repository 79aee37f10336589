import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";

const run = promisify(execFile);

/** The folder with the commands of the client generators. */
const COMMANDS = join(import.meta.dirname, "node_modules", ".bin");
/**
 * The folder for generated clients. It is inside the project, so that imports of npm packages
 * resolve to the project's `node_modules`.
 */
const FOLDER = join(PROJECT_ROOT, "dist", "generated-clients");
const DOCUMENT = join(PROJECT_ROOT, "dist", "site", "openapi.json");
const ADDRESS = "http://localhost:8787";

const COMPILER_OPTIONS = {
  target: "es2022",
  lib: ["es2022", "dom", "dom.iterable"],
  types: ["node"],
  module: "preserve",
  moduleResolution: "bundler",
  strict: true,
  noEmit: true,
};

/** The exports of `orders.ts`, a file that docs/api.md shows for each generator. */
export interface GeneratedClient {
  readonly listOrders: () => Promise<readonly { readonly id: bigint }[]>;
  readonly cancelOrder: (orderId: bigint) => Promise<void>;
}

interface Block {
  readonly language: string;
  readonly text: string;
}

/** A client generator that docs/api.md describes, with the files and the command shown there. */
export class DocumentedGenerator {
  readonly name: string;
  readonly #folder: string;
  readonly #blocks: readonly Block[];

  constructor(name: string, blocks: readonly Block[]) {
    this.name = name;
    this.#folder = join(FOLDER, name.replaceAll(/\W+/g, "-"));
    this.#blocks = blocks;
  }

  /**
   * Writes the generator's files and runs its command with the OpenAPI document that the service
   * serves.
   */
  async generate(): Promise<void> {
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder, { recursive: true });
    for (const { language, text } of this.#blocks) {
      const [, file = "", content = ""] = /^\/\/ (\S+)\n([^]*)$/.exec(text) ?? [];
      if (language === "ts")
        this.#write(file, content.replace(`${ADDRESS}/openapi.json`, DOCUMENT));
    }
    const [command = "", ...args] = this.#command();
    await run(join(COMMANDS, command), args, {
      cwd: this.#folder,
      env: { ...process.env, PATH: `${COMMANDS}${delimiter}${process.env["PATH"]}` },
    });
  }

  /**
   * Bundles and imports the generated client.
   *
   * @param address the URL of the service, which replaces the URL in docs/api.md.
   * @param key the API key that the client sends.
   */
  async load(address: string, key: string): Promise<GeneratedClient> {
    const { outputFiles } = await build({
      entryPoints: [join(this.#folder, "orders.ts")],
      bundle: true,
      write: false,
      format: "esm",
      platform: "node",
      define: { "process.env.STORE_KEY": JSON.stringify(key) },
      logLevel: "error",
    });
    const script = outputFiles[0]?.text.replaceAll(`${ADDRESS}/v1`, () => address) ?? "";
    return import(`data:text/javascript;base64,${Buffer.from(script).toString("base64")}`);
  }

  #write(file: string, content: string): void {
    writeFileSync(join(this.#folder, file), content);
  }

  /** Returns the command and its arguments, without `npx`, which would take a second longer. */
  #command(): string[] {
    const line = this.#blocks.find(({ language }) => language === "sh")?.text ?? "";
    const words = line.replace(`${ADDRESS}/openapi.json`, DOCUMENT).split(" ");
    return [words[1]?.replace("@hey-api/", "") ?? "", ...words.slice(2)];
  }
}

/**
 * Reads the client generators from docs/api.md. All generators share the files above the first
 * generator's heading.
 */
export function documentedGenerators(): DocumentedGenerator[] {
  const page = readFileSync(join(PROJECT_ROOT, "docs", "api.md"), "utf8");
  const [, section = ""] = /^## Generated clients\n([^]*?)^## /m.exec(page) ?? [];
  const [shared = "", ...generators] = section.split(/^### /m);
  return generators.map((text) => {
    const name = text.slice(0, text.indexOf("\n"));
    return new DocumentedGenerator(name, [...blocksIn(shared), ...blocksIn(text)]);
  });
}

/** Compiles all generated clients together and returns the compiler's errors as text. */
export async function compileClients(): Promise<string> {
  const config = { compilerOptions: COMPILER_OPTIONS, include: ["."] };
  writeFileSync(join(FOLDER, "tsconfig.json"), JSON.stringify(config));
  const compiler = join(PROJECT_ROOT, "node_modules", ".bin", "tsc");
  return run(compiler, ["-p", FOLDER, "--pretty", "false"]).then(
    ({ stdout }) => stdout,
    (error: { readonly stdout: string }) => error.stdout,
  );
}

function blocksIn(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w+)\n([^]*?)\n```$/gm)].map(([, language, text]) => ({
    language: language ?? "",
    text: text ?? "",
  }));
}
