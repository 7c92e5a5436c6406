/** Slot keys come from the master secret in one fixed way, and their public halves are X25519's. */

import { createHmac, createPublicKey, createPrivateKey } from "node:crypto";
import t from "tap";
import { parseSlot } from "#src/model/slot.ts";
import { parsePrivateKey } from "#src/model/key.ts";
import { parseMasterSecret, publicKeyOf, slotPrivateKey } from "./slot-keys.ts";

const master = Uint8Array.from({ length: 32 }, (_, i) => i);

const must = <T>(read: { ok: true; value: T } | { ok: false; problem: string }): T => {
  if (!read.ok) throw new Error(read.problem);
  return read.value;
};

const keyOf = (slot: number) => must(slotPrivateKey(master, must(parseSlot(slot))));

void t.test("a slot's key is HKDF of the master as docs/objects.md says, clamped", (t) => {
  const pseudorandom = createHmac("sha256", Buffer.alloc(32)).update(master).digest();
  const info = Buffer.from("xylem slot key v1 7\u0001");
  const expected = createHmac("sha256", pseudorandom).update(info).digest();
  expected[0] = (expected[0] ?? 0) & 248;
  expected[31] = ((expected[31] ?? 0) & 127) | 64;
  t.equal(Buffer.from(keyOf(7).bytes()).toString("hex"), expected.toString("hex"));
  t.not(publicKeyOf(keyOf(7)), publicKeyOf(keyOf(8)));
  t.end();
});

void t.test("a fixed master gives fixed public keys, for ever", (t) => {
  t.equal(publicKeyOf(keyOf(0)), "SjmWOSPIsL/Of6C8hBUZxen3UK7fTAXJjvney34oElE=");
  t.equal(publicKeyOf(keyOf(255)), "rEBCsFv/wTWgwHz9lrSMHIhiOtnOs+pWhkDULhdiSRI=");
  t.end();
});

void t.test("a public key is what X25519 gives of node:crypto", (t) => {
  const alice = "77076d0a7318a57d3c16c17251b26645df9b3e1f4a4e29d2e3c8b4f3a1f0c92a";
  const key = must(parsePrivateKey(Uint8Array.fromHex(alice)));
  const pkcs8 = Buffer.concat([
    Buffer.from("302e020100300506032b656e04220420", "hex"),
    key.bytes(),
  ]);
  const jwk = createPublicKey(
    createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" }),
  ).export({ format: "jwk" });
  t.equal(publicKeyOf(key), Buffer.from(jwk.x ?? "", "base64url").toString("base64"));
  t.end();
});

void t.test("a Secret without a whole master is a problem that says what to do", (t) => {
  const cases = [{}, { data: {} }, { data: { master: "AAAA" } }, { data: { master: 5 } }, null];
  for (const object of cases) {
    t.match(parseMasterSecret(object), { ok: false, problem: /delete the Secret/u });
  }
  const good = { data: { master: Buffer.from(master).toString("base64") } };
  t.strictSame(must(parseMasterSecret(good)), master);
  t.match(slotPrivateKey(master.subarray(1), must(parseSlot(0))), { ok: false });
  t.end();
});
