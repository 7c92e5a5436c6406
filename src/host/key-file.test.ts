import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import { loadKeyFile } from "./key-file.ts";
import { seededRandom } from "./random.ts";

const folder = (t: Test): string => {
  const dir = mkdtempSync(join(tmpdir(), "xylem-key-"));
  t.teardown(() => rmSync(dir, { recursive: true }));
  return dir;
};

void t.test("a missing key file is made once, readable by its owner only", async (t) => {
  const file = join(folder(t), "deep/agent.key");
  const first = await loadKeyFile(file, seededRandom(1));
  const second = await loadKeyFile(file, seededRandom(2));
  t.same(first.bytes(), second.bytes(), "the second start reads what the first wrote");
  t.equal(statSync(file).mode & 0o777, 0o600);
});

void t.test("two starts at once agree on one key", async (t) => {
  const file = join(folder(t), "agent.key");
  const keys = await Promise.all([
    loadKeyFile(file, seededRandom(1)),
    loadKeyFile(file, seededRandom(2)),
  ]);
  const [a, b] = keys.map((key) => Buffer.from(key.bytes()).toString("hex"));
  t.equal(a, b);
});

void t.test("a key file with other content is left alone and named", async (t) => {
  const file = join(folder(t), "agent.key");
  writeFileSync(file, "not a key\n");
  await t.rejects(loadKeyFile(file, seededRandom(1)), {
    code: "bad-key-file",
    message: /agent\.key/,
  });
  t.equal(readFileSync(file, "utf8"), "not a key\n");
});
