import { beforeEach, expect, it, vi } from "vitest";
import { timeTravelProgram } from "../../../src/operator/time-travel/program.ts";
import { failure, runInProcess } from "../in-process.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { atEveryCall, shortenPauses } from "./faults.ts";
import type { Outcome } from "./run-command.ts";

vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);

const NAME = "store-orders-staging-keys";
const WAY_BACK =
  /^The way back to the present state: npm run time-travel -- restore .* --bookmark \S+\n$/;
const OF_KEYS = ["--database", "keys", "--env", "staging"];
const cloudflare = useFakeCloudflare("staging");
beforeEach(() => {
  database().sqlite.exec("DELETE FROM api_keys");
  cloudflare.changes.length = 0;
  cloudflare.interfere = () => {};
});

const daysAgo = (days: number) => new Date(Date.now() - 86_400_000 * days).toISOString();
const database = () => cloudflare.d1.find(NAME);

function timeTravel(...args: string[]): Promise<Outcome> {
  return runInProcess(timeTravelProgram(), args);
}

/** Inserts a key that has been changed `revision` times and reset `resets` times. */
function addKey(id: string, { revision = 0, resets = 0 } = {}): void {
  database()
    .sqlite.prepare(
      "INSERT INTO api_keys (id, hash, last_four, name, plan, created_at, revision, resets) VALUES (?, ?, 'abcd', 'A', 'pro', 0, ?, ?)",
    )
    .run(id, `hash of ${id}`, revision, resets);
}

const trail = () =>
  database()
    .sqlite.prepare("SELECT action, key_id, details FROM key_changes ORDER BY key_changes.id")
    .all()
    .map(({ action, key_id, details }) => [action, key_id, JSON.parse(String(details))]);

const keys = () =>
  database().sqlite.prepare("SELECT id, hash, resets, revision FROM api_keys ORDER BY id").all();

const keysWithoutRevision = () => keys().map(({ id, hash, resets }) => ({ id, hash, resets }));

it("prints the bookmark of the current time, or of another time", async () => {
  const first = await timeTravel("bookmark", ...OF_KEYS);
  expect(first).toMatchObject({ status: 0, stderr: "" });
  expect(first.stdout).toMatch(/^[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32}\n$/);
  const then = database().timeOf(first.stdout.trim());
  database().bookmark();
  const { stdout } = await timeTravel("bookmark", ...OF_KEYS, "--at", then, "--json");
  expect(JSON.parse(stdout)).toEqual({ bookmark: first.stdout.trim() });
  expect(cloudflare.changes).toEqual([]);
});

it("restores keys, lists those that have changed, and says how to undo it", async () => {
  addKey("key_a", { revision: 4, resets: 1 });
  addKey("key_b");
  addKey("key_c", { revision: 9 });
  addKey("key_d", { resets: 4 });
  addKey("key_e");
  database().sqlite.exec("UPDATE api_keys SET revoked_at = 2 WHERE id = 'key_c'");
  const bookmark = database().bookmark();
  addKey("key_new");
  database().sqlite.exec(`
      DELETE FROM api_keys WHERE id = 'key_e';
      UPDATE api_keys SET resets = 3, revision = 6 WHERE id = 'key_a';
      UPDATE api_keys SET revoked_at = 5, revision = 1, resets = 1 WHERE id = 'key_b';
      UPDATE api_keys SET hash = 'rotated', revision = 10 WHERE id = 'key_c';
      UPDATE api_keys SET plan = 'free', expires_at = 86400000, resets = 2 WHERE id = 'key_d'`);
  const before = keysWithoutRevision();

  const startedMs = Date.now();
  const state = ["--bookmark", bookmark];
  const { status, stdout, stderr } = await timeTravel("restore", ...OF_KEYS, ...state, "--yes");
  expect({ status, stderr }).toEqual({ status: 0, stderr: expect.stringMatching(WAY_BACK) });
  expect(cloudflare.changes[0]).toBe(`restore ${NAME}`);
  expect(stdout).toContain(`The keys database of staging is back at ${bookmark}.\n`);
  expect(stdout).toContain("made since, which are gone: key_new.\n");
  expect(stdout).toContain("that were gone, and are valid again: key_e.\n");
  expect(stdout).not.toMatch(/key_(?:e|new) name/);
  expect(stdout).toMatch(/valid again.*\n {2}npm run keys -- revoke key_b --env staging\n/);
  expect(stdout).not.toContain("revoke key_c");
  expect(stdout).toMatch(/valid again.*\n {2}npm run keys -- rotate key_c --env staging\n/);
  expect(stdout).toContain(
    "  key_d plan: free → pro, perMinute: 60 → 300, perDay: 1,000 → 10,000, expiresAt: 1970-01-02 00:00 UTC → none\n",
  );
  expect(keysWithoutRevision()).toEqual([
    { id: "key_a", hash: "hash of key_a", resets: 3 },
    { id: "key_b", hash: "hash of key_b", resets: 1 },
    { id: "key_c", hash: "hash of key_c", resets: 0 },
    { id: "key_d", hash: "hash of key_d", resets: 4 },
    { id: "key_e", hash: "hash of key_e", resets: 0 },
  ]);
  for (const { revision } of keys()) expect(Number(revision)).toBeGreaterThan(startedMs);
  const previousBookmark = /--bookmark (\S+)$/m.exec(stdout)?.[1] ?? "";
  expect(trail()).toEqual([
    ["restore", "*", { bookmark: { from: previousBookmark, to: bookmark } }],
    ["restore", "key_b", { revokedAt: { from: "1970-01-01T00:00:00.005Z", to: null } }],
    ["restore", "key_d", expect.objectContaining({ plan: { from: "free", to: "pro" } })],
    ["restore", "key_new", expect.objectContaining({ plan: { from: "pro", to: null } })],
    ["restore", "key_e", expect.objectContaining({ plan: { from: null, to: "pro" } })],
  ]);

  // A restore sets the revision to the current time. Simulates an earlier restore on a machine
  // whose clock was ahead.
  const future = Date.now() + 1e9;
  database().sqlite.exec(`UPDATE api_keys SET revision = ${future} WHERE id = 'key_c'`);
  const back = ["--bookmark", previousBookmark, "--yes", "--json"];
  const undone = await timeTravel("restore", ...OF_KEYS, ...back);
  expect(JSON.parse(undone.stdout)).toEqual({
    bookmark: previousBookmark,
    previousBookmark: expect.any(String),
    keys: {
      revived: [],
      rotatedBack: ["key_c"],
      lost: ["key_e"],
      back: ["key_new"],
      changed: [
        { id: "key_b", details: { revokedAt: { from: null, to: "1970-01-01T00:00:00.005Z" } } },
        { id: "key_d", details: expect.objectContaining({ plan: { from: "pro", to: "free" } }) },
        { id: "key_e", details: expect.objectContaining({ plan: { from: "pro", to: null } }) },
        { id: "key_new", details: expect.objectContaining({ plan: { from: null, to: "pro" } }) },
      ],
    },
  });
  for (const { revision } of keys()) expect(revision).toBe(future + 1);
  const [a, b, c, d, added] = before;
  expect(keysWithoutRevision()).toEqual([a, b, c, { ...d, resets: 4 }, added]);
});

it("restores a keys database without its tables, and says that nothing was compared", async () => {
  addKey("key_a");
  const then = database().timeOf(database().bookmark());
  database().sqlite.exec("DROP TABLE api_keys");
  const restored = await timeTravel("restore", ...OF_KEYS, "--at", then, "--yes");
  expect(restored).toMatchObject({ status: 0 });
  expect(restored.stdout).toContain("so nothing could be compared. Look at the keys:");
  expect(keys()).toMatchObject([{ id: "key_a" }]);
  expect(trail().at(-1)).toMatchObject(["restore", "*", {}]);
});

it.each([
  [["bookmark", "--env", "staging"], 2, "required option '--database <database>' not specified"],
  [["bookmark", "--database", "keys"], 2, "the local store has no Time Travel; copy its folder"],
  [["bookmark", ...OF_KEYS, "--at", daysAgo(31)], 2, "in the past, within the last 30 days"],
  [["bookmark", ...OF_KEYS, "--at", daysAgo(29)], 1, "no bookmark for"],
  [["bookmark", ...OF_KEYS, "--at", "2999-01-01"], 2, "in the past, within the last 30 days"],
  [["bookmark", "--database=keys", "--env", "production"], 1, "there is none yet: run `npm run"],
  [["restore", ...OF_KEYS], 2, "--at TIME or --bookmark BOOKMARK"],
  [["restore", ...OF_KEYS, "--bookmark", "x", "--at", "2026-11-20"], 2, "cannot be used"],
  [["restore", ...OF_KEYS, "--bookmark", "x"], 1, "confirm with --yes"],
  [["restore", ...OF_KEYS, "--bookmark", "x", "--yes"], 1, "bookmark x is not valid"],
])("refuses %j with status %i", async (args, expected, message) => {
  expect(await timeTravel(...args)).toEqual(failure(message, expected));
  expect(cloudflare.changes.filter((change) => !change.startsWith("restore"))).toEqual([]);
});

it("whatever happens at any call, ends done, or says what stands and how to go on", async () => {
  shortenPauses();
  const sqlite = () => database().sqlite;
  addKey("key_z");
  const bookmark = database().bookmark();
  const isRestored = () => cloudflare.changes.includes(`restore ${NAME}`);
  const isRevived = () => keys().length === 1 && trail().some(([, id]) => id === "key_z");
  const restore = async () => {
    database().restore(bookmark);
    sqlite().exec("UPDATE api_keys SET revoked_at = 5");
    cloudflare.changes.length = 0;
    return timeTravel("restore", ...OF_KEYS, "--bookmark", bookmark, "--yes");
  };
  let [ended, finished] = [0, 0];
  await atEveryCall(cloudflare, restore, async ({ status, stdout, stderr }, label) => {
    ended += Number(stderr.includes("ended by SIGINT before anything was restored"));
    finished += Number(stderr.includes("has begun, so the command finishes it first"));
    if (status === 0) {
      expect(isRestored() && isRevived(), label).toBe(true);
      expect(stdout, label).toContain("npm run keys -- revoke key_z --env staging\n");
    } else if (/anything was restored|nothing was restored|^error: staging keys/m.test(stderr)) {
      expect(isRestored(), label).toBe(false);
    } else {
      expect(stderr, label).toMatch(/the database is restored|not known whether the database/);
      const [, undo = ""] =
        /(?:To return|To undo this): npm run time-travel -- (.*)/.exec(stderr) ?? [];
      expect(await timeTravel(...undo.split(" "), "--yes"), label).toMatchObject({ status: 0 });
      const [revoked] = sqlite().prepare("SELECT revoked_at FROM api_keys").all();
      expect(revoked, label).toEqual({ revoked_at: 5 });
    }
  });
  // A signal at the first four API calls prevents the restore. At the last three, it is too late.
  expect([ended, finished]).toEqual([4, 3]);
  vi.unstubAllGlobals();
});
