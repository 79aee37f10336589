/** The facts that the reference page shows. All times are in milliseconds. */
export interface PageFacts {
  /** The OpenAPI document as JSON. Fields, headers, statuses and examples come only from it. */
  readonly document: string;
  /** The limits of each plan that has fixed limits, by the plan's name. */
  readonly plans: Readonly<Record<string, { readonly perMinute: number; readonly perDay: number }>>;
  /** The default configuration of bans. */
  readonly bans: {
    readonly graceMs: number;
    readonly strikeWindowMs: number;
    readonly minStrikes: number;
    readonly maxStrikes: number;
    readonly firstBanMs: number;
    readonly longestBanMs: number;
  };
  /** A warning, in Markdown, that `JSON.parse` rounds large integers. */
  readonly roundingWarning: string;
  readonly exactReaders: readonly ExactReader[];
  /** The code blocks of a generated client: a command to run and the files to write. */
  readonly generatedClient: readonly { readonly fence: string; readonly code: string }[];
}

/** The lines of code with which a language reads a list without rounding integers. */
export interface ExactReader {
  readonly language: string;
  /** The name of the language after a Markdown fence, such as `js`. */
  readonly fence: string;
  /** A sentence about `lines`, in Markdown. */
  readonly note: string;
  readonly lines: string;
}
