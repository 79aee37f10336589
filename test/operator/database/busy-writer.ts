import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";

// A busy service in little: one transaction after the other, with short pauses, until it is ended, or
// after a minute where whoever started it could not end it.
const endMs = Date.now() + 60_000;
const sqlite = new DatabaseSync(process.argv[2] ?? "", { timeout: 60_000 });
const write = sqlite.prepare(
  "INSERT INTO order_import_chunks (import_id, created_at, lines) VALUES ('busy', 4102444800000, hex(randomblob(2000)))",
);
process.stdout.write("writing\n");
while (Date.now() < endMs) {
  sqlite.exec("BEGIN IMMEDIATE");
  for (let times = 0; times < 50; times += 1) write.run();
  sqlite.exec("DELETE FROM order_import_chunks WHERE import_id = 'busy'");
  sqlite.exec("COMMIT");
  await delay(Math.random() * 20);
}
