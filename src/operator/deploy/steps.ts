import type { CloudflareApi } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import type { Settings } from "../settings.ts";
import type { VersionLabel } from "./versions.ts";

export interface DeployOptions {
  readonly env: RemoteEnvironment;
  /** The region near which missing databases are created. */
  readonly location?: string;
  /** The jurisdiction in which missing databases are created, and which they never leave. */
  readonly jurisdiction?: string;
  readonly dryRun: boolean;
  /** If true, skips the checks of types, uncommitted changes and staging. */
  readonly skipChecks: boolean;
  /** If true, creates what is missing without asking. */
  readonly yes: boolean;
}

/** The data that all steps of a deployment share. */
export interface RollOut extends DeployOptions {
  readonly settings: Settings;
  readonly api: CloudflareApi;
  readonly label: VersionLabel;
  /** Aborted by SIGINT, SIGTERM and SIGHUP. */
  readonly signal: AbortSignal;
  /** How long a trial waits until a new version or address responds. */
  readonly patienceMs: number;
  /** The promises about bad credentials that the trials of this deployment have tried. */
  readonly triedCredentials: Set<string>;
}

export interface Step<T = void> {
  readonly title: string;
  readonly run: () => Promise<T>;
  /**
   * The part of the error message that says what was changed, by default "Nothing was changed." A
   * function may roll back the deployment before it returns the text.
   */
  readonly ifItFails?: string | (() => string | Promise<string>);
}

/** Prints the title and runs a step. @throws an Error that names it and says what was changed. */
export async function runStep<T>(
  { title, run, ifItFails = "Nothing was changed." }: Step<T>,
  signal: AbortSignal,
): Promise<T> {
  print(`${title} ...`);
  try {
    signal.throwIfAborted();
    return await run();
  } catch (error) {
    const stands = typeof ifItFails === "string" ? ifItFails : await ifItFails();
    throw new Error(
      `"${title}" failed: ${(error as Error).message}\n${stands}\nRemove the cause, and run the same command again.`,
      { cause: error },
    );
  }
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
