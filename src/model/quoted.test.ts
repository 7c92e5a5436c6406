/** Tests of showing foreign values in sentences. */

import fc from "fast-check";
import t from "tap";
import { quoted } from "./quoted.ts";

t.test("S2 any value is shown in a bounded line of printable ASCII", async () => {
  fc.assert(
    fc.property(fc.oneof(fc.anything(), fc.string({ unit: "binary", maxLength: 500 })), (value) => {
      const shown = quoted(value);
      return shown.length <= 64 * 6 + 8 && /^[\x20-\x7e]*$/.test(shown);
    }),
  );
});

t.test("values are shown as people write them", async (t) => {
  t.equal(quoted("a\nb"), '"a\\nb"');
  t.equal(quoted(undefined), "missing");
  t.equal(quoted([]), "a list");
  t.equal(quoted({}), "an object");
  t.equal(quoted("x".repeat(100)), `"${"x".repeat(64)}..."`);
});
