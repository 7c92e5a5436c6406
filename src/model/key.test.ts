/** Tests of key parsing and of the private key's silence. */

import { inspect } from "node:util";
import fc from "fast-check";
import t from "tap";
import { parsePrivateKey, parsePublicKey, publicKeyBytes, publicKeyFromBytes } from "./key.ts";
import { valueOf } from "./parsed.ts";

const GOOD = "xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=";

t.test("a public key is read and printed without change", async () => {
  const bytes = fc
    .uint8Array({ minLength: 32, maxLength: 32 })
    .filter((key) => key.some((b) => b !== 0));
  fc.assert(
    fc.property(bytes, (key) => {
      const got = publicKeyFromBytes(key);
      return got.ok && Buffer.from(publicKeyBytes(got.value)).equals(Buffer.from(key));
    }),
  );
});

const refused: { name: string; input: unknown }[] = [
  { name: "a key that is too short", input: "AAAA" },
  { name: "a key without its padding", input: GOOD.slice(0, -1) },
  { name: "a key with bits after its end", input: `${GOOD.slice(0, 42)}h=` },
  { name: "a key with a line end", input: `${GOOD}\n` },
  { name: "base64url", input: GOOD.replace("x", "-") },
  { name: "the zero key", input: `${"A".repeat(43)}=` },
  { name: "no text", input: 5 },
];

for (const { name, input } of refused) {
  t.test(`parsePublicKey refuses ${name}`, async (t) => t.equal(parsePublicKey(input).ok, false));
}

t.test("a private key is clamped and a copy", async (t) => {
  const bytes = new Uint8Array(32).fill(255);
  const key = valueOf(parsePrivateKey(bytes));
  const got = key.bytes();
  t.equal(got[0], 248);
  t.equal(got[31], 127);
  t.equal(bytes[0], 255);
  got.fill(0);
  t.equal(key.bytes()[1], 255);
});

t.test("a private key of the wrong size or of zeros is refused", async (t) => {
  t.equal(parsePrivateKey(new Uint8Array(31).fill(1)).ok, false);
  t.equal(parsePrivateKey(new Uint8Array(32)).ok, false);
});

t.test("S4 a private key is not shown by string, JSON or inspect", async (t) => {
  const key = valueOf(parsePrivateKey(new Uint8Array(32).fill(0x61)));
  const shown = [
    String(key),
    JSON.stringify({ key: key }),
    inspect({ key: key }, { showHidden: true }),
  ];
  for (const text of shown) {
    t.match(text, /\[private key\]/);
    t.notMatch(text, /97|aaaa|YWFh/);
  }
});
