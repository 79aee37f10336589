import type { Reporter, TestCase, TestModule, TestSuite } from "vitest/node";
import type {} from "./needs.ts";

/** Says at the end how many tests were skipped because this machine lacks a program. */
export default class SkipReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const skipped = modules.flatMap((module) => [...module.children.allTests("skipped")]);
    for (const [program, tests] of Map.groupBy(skipped, lackedBy)) {
      if (program) console.log(`    Skipped  ${tests.length} without ${program}`);
    }
  }
}

function lackedBy(task: TestCase | TestSuite | TestModule): string | undefined {
  if (task.type === "module") return undefined;
  return task.meta().lacks ?? lackedBy(task.parent);
}
