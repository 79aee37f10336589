import { hostname } from "node:os";
import { Readable } from "node:stream";
import { eq, ne, sql } from "drizzle-orm";
import { beforeEach, expect, it, vi } from "vitest";
import * as databases from "../../../src/store/database.ts";
import { addKeys, changeKey } from "../../../src/store/keys/change-key.ts";
import { createVerificationKey } from "../../../src/store/keys/verification-key.ts";
import { generateSecret } from "../../../src/store/keys/new-secret.ts";
import { hashSecret, isSecret } from "../../../src/rules/keys/secret.ts";
import { keysProgram } from "../../../src/operator/keys/program.ts";
import { apiKeys, formerKeyHashes, keyBans } from "../../../src/schema/keys.ts";
import { failure, runInProcess } from "../commands.ts";
import { KeyStore } from "./key-store.ts";

/** Later than the clock of the database, which decides whether a ban is in force. */
const NOW = new Date("2031-01-31T12:00:00.000Z");
const inHours = (hours: number) => new Date(NOW.getTime() + hours * 3_600_000);
const inDays = (days: number) => inHours(days * 24);
const BAN_ENDS = new Date("2999-01-01T00:00:00.000Z");

/** The stores of `keys list`, of the transcript, and of the other tests. */
const [listed, told, store] = [new KeyStore(), new KeyStore(), new KeyStore()];

beforeEach(() => {
  vi.stubEnv("STORE_ORDERS_ACTOR", "Ada");
  vi.useFakeTimers({ toFake: ["Date"], now: NOW });
});

/** Returns the rows of a key, its former secrets and its bans, or with `ne` those of all others. */
function rowsOf(id: string, is: typeof eq = eq) {
  const { orm } = store.database;
  return Promise.all([
    orm.select().from(apiKeys).where(is(apiKeys.id, id)),
    orm.select().from(formerKeyHashes).where(is(formerKeyHashes.keyId, id)),
    orm.select().from(keyBans).where(is(keyBans.keyId, id)),
  ]);
}

const SETTINGS =
  "name,plan,perMinute,perDay,expiresAt,locationHint,revokedAt,formerKeyEndsAt".split(",");
const asJson = (value: unknown) => JSON.parse(JSON.stringify(value));

/** Returns the settings that differ, as the audit trail has them. */
function differences(before: any, after: any) {
  const entries = SETTINGS.map((name) => [name, { from: before[name], to: after[name] }] as const);
  return Object.fromEntries(entries.filter(([, { from, to }]) => from !== to));
}

const OWN = ["--plan", "enterprise", "--per-minute", "5", "--per-day", "1000000000"];
const LONG = "😀".repeat(100);
/** Commands, the fields that they change, and in how many hours the former secrets end then. */
const CHANGES: readonly [line: string, changes: object, ends?: readonly number[]][] = [
  ["update ID --per-minute=7", { perMinute: 7 }],
  ["update ID --per-day 8", { perDay: 8 }],
  ["update ID --expires 2099-12-31T23:59:59.5000+02:00", { expiresAt: "2099-12-31T21:59:59.500Z" }],
  [`update ID --expires never --name ${LONG}`, { expiresAt: null, name: LONG }],
  ["update ID --plan pro", { plan: "pro", perMinute: 300, perDay: 10_000 }],
  ["update ID --plan pro", {}],
  [`update ID ${OWN.join(" ")}`, { plan: "enterprise", perMinute: 5, perDay: 1_000_000_000 }],
  ["rotate ID", { formerKeyEndsAt: inHours(24) }, [24]],
  ["rotate ID --grace 5400s", { formerKeyEndsAt: inHours(1.5) }, [1.5, 1.5]],
  ["rotate ID --grace 90d", { formerKeyEndsAt: inDays(90) }, [1.5, 1.5, 2160]],
  ["rotate ID --grace 60m", { formerKeyEndsAt: inHours(1) }, [1, 1, 1, 1]],
  // None is kept, because a clock that is set back would revive it.
  ["rotate ID --grace 0", { formerKeyEndsAt: null }, []],
  ["revoke ID", { state: "revoked", revokedAt: NOW }],
  ["revoke ID", {}],
  ["reset ID", { bannedUntil: null }],
  ["reset ID", {}],
  ["update ID --name Late", { name: "Late" }],
];

it("each command changes and records what it says, and leaves all else as it is", async () => {
  const name = "Łódź 'n' \"co\"";
  const options = [...OWN, "--name", name, "--near", "weur"];
  const { key: first, ...created } = await store.keysJson("create", ...options);
  const { id } = created;
  const never = { expiresAt: null, revokedAt: null, formerKeyEndsAt: null, bannedUntil: null };
  const limits = { plan: "enterprise", perMinute: 5, perDay: 1_000_000_000, locationHint: "weur" };
  const made = { createdAt: NOW.toISOString(), lastFour: first.slice(-4), state: "active" };
  const shownId = expect.stringMatching(/^key_[a-z2-7]{16}$/);
  expect(created).toEqual({ id: shownId, name, ...limits, ...never, ...made });
  expect(JSON.stringify(await rowsOf(id))).not.toContain(first.slice(5, -4));
  expect(await store.keysJson("list")).toEqual([created]);

  // Both keys have bans, and former secrets of which one has just ended.
  const { orm } = store.database;
  const { id: other } = (await store.add()).record;
  const bans = Array.from({ length: 12 }, (_, index) => {
    const endsAt = index === 0 ? BAN_ENDS : inDays(-8_000);
    const liftedAt = null as Date | null;
    return { number: 12 - index, beganAt: inDays(-9_000 - index), endsAt, liftedAt };
  });
  await orm.insert(keyBans).values(bans.map((ban) => ({ ...ban, keyId: id })));
  await orm.insert(keyBans).values(bans.map((ban) => ({ ...ban, keyId: other })));
  await orm.insert(formerKeyHashes).values([
    { keyId: id, hash: "a", endsAt: NOW, lastFour: "abcd" },
    { keyId: other, hash: "b", endsAt: NOW, lastFour: "abcd" },
    { keyId: other, hash: "c", endsAt: BAN_ENDS, lastFour: "abcd" },
  ]);
  const others = await rowsOf(id, ne);

  const shownBans = bans.slice(0, 10).map(({ endsAt, ...ban }) => ({ ...ban, until: endsAt }));
  const blank = Object.fromEntries(SETTINGS.map((each) => [each, null]));
  const entry = { at: NOW, actor: "Ada", keyId: id };
  const trail = [{ ...entry, action: "create", details: differences(blank, created) }];
  const secrets = [first];
  let resets = 0;
  let record = { ...created, state: "banned", bannedUntil: BAN_ENDS, formerKeyEndsAt: NOW };
  for (const [line, changes, ends] of CHANGES) {
    const [action = ""] = line.split(" ");
    const isChange = action === "reset" || Object.keys(changes).length > 0;
    vi.setSystemTime(inHours(isChange ? 0 : 1));
    const { key, ...shown } = await store.keysJson(...line.replace("ID", id).split(" "));
    if (key !== undefined) secrets.push(key);
    const before = asJson(record);
    record = { ...record, ...changes, lastFour: secrets.at(-1).slice(-4) };
    expect(shown, line).toEqual(asJson(record));
    if (isChange) trail.unshift({ ...entry, action, details: differences(before, shown) });
    if (action === "reset") {
      resets += 1;
      shownBans[0]!.liftedAt = NOW;
    }
    expect(await store.keysJson("audit", id), line).toEqual(asJson(trail));
    const all = asJson({ ...record, bans: shownBans });
    expect(await store.keysJson("show", id), line).toEqual(all);
    const own = shown.plan === "enterprise" ? shown.perMinute : null;
    const [[row], formerRows] = await rowsOf(id);
    expect(row, line).toMatchObject({ revision: trail.length - 1, resets, perMinute: own });
    expect(await rowsOf(id, ne), line).toEqual(others);
    if (ends === undefined) continue;
    const [present, ...former] = secrets.map(hashSecret).toReversed();
    const pairs = ends.toReversed().map((end, index) => [former[index], inHours(end)]);
    const found = formerRows.map(({ hash, endsAt }) => [hash, endsAt]);
    expect([row!.hash, ...found.toSorted()], line).toEqual([present, ...pairs.toSorted()]);
  }
  expect(secrets).toSatisfy((all: string[]) => all.every(isSecret));
  const { stderr } = await store.keys("update", id, "--per-day=4", "--json");
  expect(stderr).toMatch(/^warning: the day ends first: after 4 requests the key is refused .*\n$/);
  const { stdout } = await store.keys("show", id);
  const titles = "The last bans:\nnumber  beganAt +until +liftedAt";
  expect(stdout).toMatch(RegExp(`^id +${id}\nname +[^]*\n\n${titles}\n(?: .*\n){10}$`));
});

/** Commands, one a minute, with what they print on stdout and, after \`!\`, on stderr. */
const TRANSCRIPT = `
$ audit
! No changes are recorded.
$ create --plan free --name Ann --expires 2031-02-01T12:30:00Z
SECRET
! Keep this key: it is not shown again.
! id          A | name        Ann | plan        free | per minute  60 | per day     1,000
! expires at  2031-02-01 12:30 UTC
! created at  2031-01-31 12:02 UTC | last four   LAST | state       active
$ create --plan enterprise --per-minute 9 --per-day 8 --name 家家家家家 --expires 2032-01-01
SECRET
! Keep this key: it is not shown again.
! id          B | name        家家家家家 | plan        enterprise | per minute  9 | per day     8
! expires at  2032-01-01 00:00 UTC
! created at  2031-01-31 12:03 UTC | last four   LAST | state       active
! warning: the day ends first: after 8 requests the key is refused for a day
$ list
id                    plan        state   ends in  expires               name
A  free        active  LAST     2031-02-01 12:30 UTC  Ann
B  enterprise  active  LAST     2032-01-01            家家家…
$ update A --plan enterprise --per-minute 9 --per-day 9 --expires never
id          A | name        Ann | plan        enterprise | per minute  9 | per day     9
created at  2031-01-31 12:02 UTC | last four   LAST | state       active
! The key is now:
$ audit --limit 2
at                    actor  action  key
2031-01-31 12:05 UTC  Ada    update  A
    plan: free → enterprise, perMinute: 60 → 9, perDay: 1000 → 9, expiresAt:
    2031-02-01T12:30:00.000Z → none
2031-01-31 12:03 UTC  Ada    create  B
    name: 家家家家家, plan: enterprise, perMinute: 9, perDay: 8, expiresAt:
    2032-01-01T00:00:00.000Z
! The newest 2; --limit N shows more.
$ undo --since 2031-01-31T12:03Z
Done: this gives back the former settings of A, and revokes, because they were created since: B.
$ undo --since 2031-01-31T12:03Z
! There was nothing to take back.
$ revoke A B
id          A | name        Ann | plan        free | per minute  60 | per day     1,000
expires at  2031-02-01 12:30 UTC
revoked at  2031-01-31 12:09 UTC
created at  2031-01-31 12:02 UTC | last four   LAST | state       revoked

id          B | name        家家家家家 | plan        enterprise | per minute  9 | per day     8
expires at  2032-01-01 00:00 UTC
revoked at  2031-01-31 12:07 UTC
created at  2031-01-31 12:03 UTC | last four   LAST | state       revoked
! The keys are now:
`;

it("data goes to stdout, and words go to stderr", async () => {
  let printed = "\n";
  /** The keys A, B, ... */
  const ids = () => [...new Set(printed.match(/key_\w{16}/g))];
  for (const [command, line = ""] of TRANSCRIPT.matchAll(/^\$ (.*)$/gm)) {
    vi.setSystemTime(Date.now() + 60_000);
    const args = line.split(" ").map((word) => ids()["AB".indexOf(word)] ?? word);
    const typed = [...args, "--persist-to", told.path];
    const { stdout, stderr } = await runInProcess(keysProgram(), typed, "", { columns: 80 });
    printed += `${command}\n${stdout}${stderr.replaceAll(/^\n/gm, "").replaceAll(/^(?=.)/gm, "! ")}`;
  }
  for (const [secret, lastFour = ""] of printed.matchAll(/^sord_\w+(\w{4})$/gm)) {
    printed = printed.replaceAll(secret, "SECRET").replaceAll(lastFour, "LAST");
  }
  for (const [index, id] of ids().entries()) printed = printed.replaceAll(id, "AB"[index]!);
  // Joins the lines of a key.
  const joint = /\n(?:! )?(?=(?:name|plan|per \w+|last four|state) {2})/g;
  expect(printed.replaceAll(joint, " | ")).toBe(TRANSCRIPT);
});

it("refuses a past expiry, limits that do not fit the plan, and an unknown id; an expired key can be renamed", async () => {
  const { id } = (await store.add()).record;
  const { id: expired } = (await store.add({ expiresAt: NOW })).record;
  const ofOneKey = "show,usage,audit,revoke,reset,rotate,update --name X,undo --since 2026-01-31";
  const nobody = 'no key has the id "key_nobody"; `npm run keys -- list --persist-to ';
  for (const [status, line, reason] of [
    [1, "create --plan pro --name L --expires 2020-01-31T12:00:00+02:00", "T10:00:00.000Z is in"],
    [1, `update ${id} --expires 2031-01-31T12:00Z`, "2031-01-31T12:00:00.000Z is in the past"],
    [2, `update ${id} --expires 9999-12-31T23:59:59-01:00`, "Expected a date"],
    [2, `update ${id} --plan enterprise --per-day 9`, "--per-minute and --per-day"],
    [2, `update ${id} --per-minute 1000`, "the plan free has fixed limits"],
    [1, `rotate ${expired}`, "the key is expired: create a new one"],
    [1, `revoke ${id} key_nobody`, nobody],
    ...ofOneKey.split(",").map((command) => [1, `${command} key_nobody --json`, nobody] as const),
  ] as const) {
    expect(await store.keys(...line.split(" ")), line).toEqual(failure(reason, status));
  }
  vi.stubEnv("STORE_ORDERS_ACTOR", "Ada\nBob");
  expect(await store.keys("revoke", id)).toEqual(failure("STORE_ORDERS_ACTOR is no name", 2));
  const untouched = [[{ revision: 0 }], [], []];
  for (const each of [id, expired]) expect(await rowsOf(each)).toMatchObject(untouched);
  vi.stubEnv("STORE_ORDERS_ACTOR", undefined);
  expect(await store.keys("update", expired, "--name", "X")).toMatchObject({ status: 0 });
});

it("several rotations at the same time each print a secret that they stored", async () => {
  const { key: former, record } = await store.add();
  const rotate = (grace: string) => store.keysJson("rotate", record.id, "--grace", grace);
  const rotated = await Promise.all(["1h", "2h", "3h"].map(rotate));
  const secrets = [former, ...rotated.map(({ key }) => key)];
  const [rows, formerRows] = await rowsOf(record.id);
  const found = [...rows, ...formerRows].map(({ hash }) => hash);
  expect(found.toSorted()).toEqual(secrets.map(hashSecret).toSorted());
  expect(rows).toMatchObject([{ revision: 3 }]);
  expect(await store.keysJson("audit", record.id)).toHaveLength(4);
});

it("list shows the keys that match all filters, the oldest first", async () => {
  // By chance, a generated key could have the ending that is looked for.
  const lastFour = "2222";
  const pro = { plan: "pro", createdAt: inDays(-7), lastFour } as const;
  const { record: later } = await listed.add({ ...pro, name: "later", expiresAt: inDays(31) });
  await listed.add({ name: "CAFÉ Łódź & Co", createdAt: inDays(-9), lastFour: "bcda" });
  await listed.add({ ...pro, name: "Expired", createdAt: inDays(-6), expiresAt: NOW });
  const ended = { name: "Both", expiresAt: inDays(-2), createdAt: NOW, revokedAt: NOW };
  const { record: both } = await listed.add({ ...ended, lastFour: "aabc" });
  // Only a key with the lifetime of a verification's key is left out.
  await listed.add({ name: "Verification", createdAt: inDays(1), lastFour });
  const { record } = createVerificationKey(inDays(2));
  await addKeys(listed.database, [{ ...record, lastFour }], "test");
  const ban = { number: 1, beganAt: new Date(0), endsAt: BAN_ENDS };
  const banned = [later.id, both.id].map((keyId) => ({ ...ban, keyId }));
  await listed.database.orm.insert(keyBans).values(banned);
  for (const [filters, names] of [
    ["", ["CAFÉ Łódź & Co", "later", "Expired", "Both", "Verification"]],
    ["--state active", ["CAFÉ Łódź & Co", "Verification"]],
    ["--state banned", ["later"]],
    ["--state expired", ["Expired"]],
    ["--state revoked", ["Both"]],
    ["--name cafe\u0301", ["CAFÉ Łódź & Co"]],
    ["--name verif", ["Verification", "Verification"]],
    ["--ending BC", ["Both"]],
    ["--plan pro --state banned --name T", ["later"]],
    ["--plan business", []],
  ] as const) {
    const args = ["list", ...filters.split(" ").filter(Boolean)];
    expect(await listed.keysJson(...args), filters).toMatchObject(names.map((name) => ({ name })));
    const { stdout, stderr } = await listed.keys(...args);
    const rows = stdout.split("\n").slice(1, -1);
    const shown = rows.map((row) => names.find((name) => row.endsWith(`  ${name}`)));
    expect([shown, stderr]).toEqual([names, names.length === 0 ? "No matching keys.\n" : ""]);
  }
});

it("show - finds a key by any of its secrets, as list --ending does, and repeats no input", async () => {
  const { key: former, record } = await store.add();
  const { key: current } = await store.keysJson("rotate", record.id, "--grace", "1h");
  const mistyped = current.slice(0, -1) + (current.endsWith("a") ? "b" : "a");
  const endless = Iterator.from({ next: () => ({ value: "x".repeat(1_000_000) }) });
  const found = { status: 0, stdout: expect.stringContaining(record.id), stderr: "" };
  const asked = { ...found, stderr: expect.stringContaining("Paste the key") };
  const none = failure("holds no API key of this service");
  const kill = vi.spyOn(process, "kill").mockReturnValue(true);
  for (const [input, outcome, isTerminal = false] of [
    [[former], found],
    [[` ${current}\r\n`], found],
    [[mistyped], none],
    [[`${current}\n${current}`], none],
    [endless, none],
    [[generateSecret()], failure("this store does not know the key")],
    [[`${current}\r`], asked, true],
    // Ctrl+D, and Ctrl+C.
    [["\u0004"], none, true],
    [["\u0003"], none, true],
  ] as const) {
    expect(kill).not.toHaveBeenCalled();
    const args = ["show", "-", "--persist-to", store.path];
    const shown = await runInProcess(keysProgram(), args, Readable.from(input), { isTerminal });
    expect(shown).toEqual(outcome);
    expect(shown.stdout + shown.stderr).not.toContain("sord_");
    expect(shown.stdout + shown.stderr).not.toContain(current.slice(5, 15));
  }
  expect(kill.mock.calls).toEqual([[process.pid, "SIGINT"]]);
  kill.mockRestore();
  for (const secret of [former, current]) {
    const ending = secret.slice(-4).toUpperCase();
    expect(await store.keysJson("list", "--ending", ending)).toMatchObject([{ id: record.id }]);
  }
});

it("the trail names the account, keeps a key that is gone, and never changes", async () => {
  vi.stubEnv("STORE_ORDERS_ACTOR", "");
  vi.stubEnv("USER", "ada");
  const { id } = await store.keysJson("create", "--plan", "free", "--name", "Zoo");
  const { database } = store;
  const operation = { action: "update", actor: "ada" } as const;
  const failing = changeKey(database, id, operation, (key) => ({ ...key, perDay: 5 }));
  await expect(failing).rejects.toThrow("enterprise_has_its_own_limits");
  expect(await store.keysJson("audit", id)).toMatchObject([{ actor: `ada@${hostname()}` }]);
  await database.orm.run(sql`DELETE FROM api_keys WHERE id = ${id}`);
  expect(await store.keysJson("audit", id)).toHaveLength(1);
  for (const statement of ["DELETE FROM", "INSERT OR REPLACE INTO key_changes SELECT * FROM"]) {
    const changing = database.transaction([sql.raw(`${statement} key_changes`)]);
    await expect(changing).rejects.toThrow(/never (?:rewritten|deleted)/);
  }
});

// This test comes last: the others need the clock that it replaces.
it("times and states are the database's, whatever the clock of this machine says", async () => {
  vi.mocked(databases.databaseTime).mockRestore();
  vi.useRealTimers();
  const now = Date.now();
  const isNow = (time: string) => expect(Math.abs(Date.parse(time) - now)).toBeLessThan(60_000);
  const soon = ["--expires", new Date(now + 60_000).toISOString()];
  for (const minutes of [-5, 5]) {
    vi.useFakeTimers({ toFake: ["Date"], now: now + minutes * 60_000 });
    const created = await store.keysJson("create", "--plan", "free", "--name", "A", ...soon);
    expect(created.state).toBe("active");
    isNow(created.createdAt);
    const { formerKeyEndsAt } = await store.keysJson("rotate", created.id, "--grace", "24h");
    isNow(new Date(Date.parse(formerKeyEndsAt) - 86_400_000).toISOString());
    isNow((await store.keysJson("revoke", created.id)).revokedAt);
    for (const { at } of await store.keysJson("audit", created.id)) isNow(at);
  }
});
