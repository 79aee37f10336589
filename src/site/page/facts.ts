/** What the page shows besides the OpenAPI document. Times in milliseconds. */
export interface PageFacts {
  /** The OpenAPI document as JSON text: the only source of fields, headers, statuses and examples. */
  readonly document: string;
  /** The plans with limits of their own, by name. */
  readonly plans: Readonly<Record<string, { readonly perMinute: number; readonly perDay: number }>>;
  /** The numbers of bans that a service has by default. */
  readonly bans: {
    readonly graceMs: number;
    readonly strikeWindowMs: number;
    readonly minStrikes: number;
    readonly maxStrikes: number;
    readonly firstBanMs: number;
    readonly longestBanMs: number;
  };
  /** Says what goes wrong with a rounded integer, in Markdown. */
  readonly roundingWarning: string;
  readonly exactReaders: readonly ExactReader[];
  /** The generators of clients, each with its command and its files. */
  readonly generators: readonly {
    readonly name: string;
    readonly blocks: readonly { readonly fence: string; readonly code: string }[];
  }[];
}

/** How a language reads a list without rounding an integer. */
export interface ExactReader {
  readonly language: string;
  /** The language's name after a Markdown fence. */
  readonly fence: string;
  /** One sentence about the lines, in Markdown. */
  readonly note: string;
  readonly lines: string;
}
