import t from "tap";
import { readGeneration } from "./ruleset-generation.ts";

/** An attribute of this machine's byte order. */
const attribute = (type: number, value: Uint8Array): Buffer => {
  const head = Buffer.from(Uint16Array.of(4 + value.length, type).buffer);
  return Buffer.concat([head, value, Buffer.alloc((4 - (value.length % 4)) % 4)]);
};

const header = Buffer.alloc(4);
const id = Buffer.of(0x01, 0x02, 0x03, 0x04);

void t.test("the number is found among other attributes", async (t) => {
  const name = attribute(3, Buffer.from("nft\0x"));
  t.equal(readGeneration(Buffer.concat([header, attribute(1, id)])), 0x01020304);
  t.equal(readGeneration(Buffer.concat([header, name, attribute(1, id)])), 0x01020304);
});

void t.test("an answer without a number, cut off or garbled gives none", async (t) => {
  const whole = Buffer.concat([header, attribute(1, id)]);
  for (let length = 0; length < whole.length; length += 1) {
    t.equal(readGeneration(whole.subarray(0, length)), null, `${length} bytes`);
  }
  t.equal(readGeneration(Buffer.concat([header, attribute(1, Buffer.of(1, 2))])), null);
  t.equal(readGeneration(Buffer.concat([header, attribute(2, id)])), null);
  t.equal(readGeneration(Buffer.concat([header, Buffer.alloc(8)])), null, "a length of zero");
});
