import { createHash, createHmac } from "node:crypto";
import * as fs from "node:fs";
import { dirname, join } from "node:path";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../../schema/databases.ts";

/** The default folder of the local store, the same as wrangler's default. */
export const DEFAULT_STORE = join(import.meta.dirname, "..", "..", "..", ".wrangler", "state");

/** The subfolder of `--persist-to` in which wrangler keeps its data. */
export const LAYOUT_VERSION = "v3";

/** The class of the Durable Objects in which wrangler keeps local databases. */
const DATABASE_CLASS = "miniflare-D1DatabaseObject";

export function isStore(folder: string): boolean {
  return DATABASE_NAMES.some((name) => fs.existsSync(databaseFile(folder, name)));
}

/** The folder of a store in which `npm start` keeps its own files, and the file that says so. */
const OWN_FOLDER = "npm-start";
const NOTE = "README.txt";
/** Its first words say whose folder it is, whatever follows. */
const NOTE_MARK = "`npm start` of the Store Orders Service keeps its files in this folder";
const NOTE_TEXT = `${NOTE_MARK}, and replaces and deletes
them. Keep no files of your own here. The databases of the store are in ../v3.
`;

/** Returns the path of the folder of a store in which `npm start` keeps its own files. */
export const ownFolder = (store: string) => join(store, OWN_FOLDER);

/**
 * Makes the folder in which `npm start` keeps its own files, and the store's folder.
 *
 * @throws an Error for the operator if one of them holds files of somebody else.
 */
export function makeOwnFolder(store: string): string {
  makeFolder(store);
  requireStoreOrEmpty(store);
  fs.accessSync(store, fs.constants.W_OK);
  const own = ownFolder(store);
  const note = join(own, NOTE);
  const isOwn = fs.existsSync(note) && fs.readFileSync(note, "utf8").startsWith(NOTE_MARK);
  if (!isOwn && fs.existsSync(own) && fs.readdirSync(own).length > 0) {
    throw new Error(`${own} holds files that npm start did not write: move them away`);
  }
  fs.mkdirSync(own, { recursive: true });
  if (!isOwn) fs.writeFileSync(note, NOTE_TEXT);
  return own;
}

/** @throws an Error for the operator if a folder is no store and holds something else. */
export function requireStoreOrEmpty(folder: string): void {
  if (isStore(folder) || !fs.existsSync(folder)) return;
  requireFolder(folder);
  // The databases of another project are in a folder of the same name.
  const isEmpty = (name: string) =>
    name === LAYOUT_VERSION &&
    fs
      .readdirSync(join(folder, name), { recursive: true, withFileTypes: true })
      .every((entry) => entry.isDirectory());
  const other = fs.readdirSync(folder).find((name) => name !== OWN_FOLDER && !isEmpty(name));
  if (other === undefined) return;
  throw new Error(
    `${folder} holds ${JSON.stringify(other)} and is no store: name an empty or a new folder, or that of a store`,
  );
}

function requireFolder(path: string): void {
  if (!fs.statSync(path).isDirectory()) throw new Error(`${path} is a file: name a folder`);
}

/** Makes a folder unless it exists. @throws an Error that says why it cannot be made. */
export function makeFolder(folder: string): void {
  let existing = folder;
  while (!fs.existsSync(existing)) existing = dirname(existing);
  requireFolder(existing);
  if (existing === folder) return;
  // Its error tells more: on a file system that is read-only, that of `mkdirSync` is ENOENT.
  fs.accessSync(existing, fs.constants.W_OK);
  fs.mkdirSync(folder, { recursive: true });
}

/** Returns the path of the SQLite file of a database. wrangler names it after an object's id. */
export function databaseFile(folder: string, name: DatabaseName): string {
  const key = createHash("sha256").update(DATABASE_CLASS).digest();
  const half = (data: string | Buffer) =>
    createHmac("sha256", key).update(data).digest().subarray(0, 16);
  const first = half(BINDINGS[name]);
  const id = Buffer.concat([first, half(first)]).toString("hex");
  return join(folder, LAYOUT_VERSION, "d1", DATABASE_CLASS, `${id}.sqlite`);
}
