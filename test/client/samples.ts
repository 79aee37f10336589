import { globSync, readFileSync } from "node:fs";

/** A sample of TypeScript or JavaScript in a document. */
export interface Sample {
  /** The path of the document and the number of the sample in this document. */
  readonly title: string;
  /** A file name for the sample, such as `sample-1.ts`. */
  readonly file: string;
  readonly code: string;
  /**
   * Patterns for the lines that the sample prints, from the comments after `console.log`. In a
   * comment, `…` stands for any text.
   */
  readonly promises: readonly RegExp[];
}

const FENCED = /^```(?<language>ts|typescript|js|javascript)\b.*\n(?<code>[^]*?)^```$/gm;

/**
 * Matches the first line of a file of a generated client. The tests in `test/generated-clients`
 * compile and run these files.
 */
const GENERATED_CLIENT_FILE = /^\/\/ [\w.-]+\.ts\n/;

/** Reads the samples in all documents, except the files of generated clients. */
export function readSamples(): Sample[] {
  const documents = globSync(["*.md", "docs/*.md", "src/client/*.md"]).toSorted();
  return documents
    .flatMap((document) =>
      [...readFileSync(document, "utf8").matchAll(FENCED)].map(({ groups }, index) => ({
        title: `${document}, sample ${index + 1}`,
        extension: groups?.["language"]?.startsWith("t") ? "ts" : "js",
        code: groups?.["code"] ?? "",
      })),
    )
    .filter(({ code }) => !GENERATED_CLIENT_FILE.test(code))
    .map(({ title, extension, code }, index) => ({
      title,
      file: `sample-${index + 1}.${extension}`,
      code,
      promises: promisesIn(code),
    }));
}

function promisesIn(code: string): RegExp[] {
  return [...code.matchAll(/console\.log\(.*\/\/ (.+)$/gm)].map(([, text = ""]) => {
    const literal = text.split("…").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(`^${literal.join(".*")}$`, "m");
  });
}
