/** Catalogue row S4: what is logged holds no secret, whoever put it in. */

import t from "tap";
import { HostError } from "#src/ports/host-error.ts";
import { openLog } from "./log.ts";

const logged = (fields: object, message = "said"): string => {
  const lines: string[] = [];
  const log = openLog({ level: "debug", name: "test", write: (line) => lines.push(line) });
  log.debug(fields, message);
  log.info(fields, message);
  log.warn(fields, message);
  log.error(fields, message);
  t.equal(lines.length, 4);
  return lines.join("");
};

const SECRET = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I=";
const JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJzdWIiOiJ4In0.c2lnbmF0dXJl";
const PEM = `-----BEGIN EC PRIVATE KEY-----\n${SECRET}\n-----END EC PRIVATE KEY-----`;

const CASES: readonly { name: string; fields: object; message?: string }[] = [
  { name: "a private key in a field", fields: { privateKey: SECRET } },
  { name: "a Secret's data, deep inside", fields: { a: [{ data: { master: SECRET } }] } },
  { name: "a token in a field", fields: { auth: { token: SECRET } } },
  { name: "a bearer token in a text", fields: { header: `Bearer ${SECRET}` } },
  { name: "a service account's token in a message", fields: {}, message: `token ${JWT} refused` },
  {
    name: "a PEM in an error's cause",
    fields: { error: new Error("x", { cause: new Error(PEM) }) },
  },
  { name: "bytes", fields: { bytes: Buffer.from(SECRET) } },
  { name: "an error as the fields", fields: new HostError("io", `Bearer ${SECRET}`) },
];

for (const { name, fields, message } of CASES) {
  void t.test(`S4 ${name} is not logged`, (t) => {
    const text = logged(fields, message);
    t.notMatch(text, SECRET);
    t.notMatch(text, JWT);
    t.notMatch(text, String([...Buffer.from(SECRET).subarray(0, 8)]));
    t.end();
  });
}

void t.test("fields, codes and messages that are no secret are logged", (t) => {
  const text = logged({ node: "n1", error: new HostError("timeout", "no answer") }, "lost");
  t.match(text, /"node":"n1"/u);
  t.match(text, /"code":"timeout"/u);
  t.match(text, /"msg":"lost"/u);
  t.end();
});

void t.test("a level below the chosen one is silent", (t) => {
  const lines: string[] = [];
  const log = openLog({ level: "warn", name: "test", write: (line) => lines.push(line) });
  log.info({}, "quiet");
  log.warn({}, "loud");
  t.equal(lines.length, 1);
  t.end();
});
