import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { checkLocalVars } from "../../src/operator/settings.ts";
import { testFolder } from "../support/test-folder.ts";

test.each([
  ["", null],
  ['# Bans\n\nexport BAN_MODE=off\n  REQUEST_LOG = "all"\r\n', null],
  [
    "BAN_MODEE=off\nREQUESTLOG=all",
    "no var BAN_MODEE (did you mean BAN_MODE?) and no var REQUESTLOG (did you mean REQUEST_LOG?)",
  ],
  ["list_reads=nearest", "no var list_reads (did you mean LIST_READS?)"],
  ["BAN_MODE=maybe", "BAN_MODE: must be on, log or off"],
  ["BAN_MODE off", ".dev.vars, line 1: expected NAME=value"],
  ["BAN_MODE=off\nBAN_MODE off", ".dev.vars, line 2: expected NAME=value"],
  ["", "no var BAN_MODEE (did you mean BAN_MODE?): see [vars] in wrangler.toml", "BAN_MODEE = 1"],
  ["JURISDICTION=eu", "only a deployed environment can have a JURISDICTION"],
])("the vars of the local service: %j", async (text, fault, top = "") => {
  const folder = testFolder();
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, 'name = "shop"\n');
  await checkLocalVars(folder);
  writeFileSync(config, `name = "shop"\n[vars]\n${top}\n`);
  writeFileSync(join(folder, ".dev.vars"), text);
  const checked = expect(checkLocalVars(folder));
  await (fault === null ? checked.resolves.toBeUndefined() : checked.rejects.toThrow(fault));
});
