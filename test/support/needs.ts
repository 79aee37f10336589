declare module "vitest" {
  interface TaskMeta {
    /** The program without which a test is skipped. */
    lacks?: string;
  }
}

/** Options of tests that are skipped where `program` is missing. `SkipReporter` says so. */
export function needs(program: string, isHere: boolean) {
  return isHere ? {} : { skip: true, meta: { lacks: program } };
}
