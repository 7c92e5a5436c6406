import t from "tap";

import { waitFor } from "./wait.ts";

void t.test("the value of the condition is returned once there is one", async (t) => {
  let looks = 0;
  const value = await waitFor("the third look", () => (++looks === 3 ? "here" : null), {
    intervalMs: 1,
  });
  t.equal(value, "here");
});

void t.test("0 and the empty string are values", async (t) => {
  t.equal(await waitFor("zero", () => 0), 0);
  t.equal(await waitFor("nothing said", () => ""), "");
});

void t.test("a failure says what was expected and what the last look showed", async (t) => {
  const look = (): never => {
    throw new Error("2 of 3 nodes are Ready");
  };
  await t.rejects(waitFor("three nodes are Ready", look, { timeoutMs: 5, intervalMs: 1 }), {
    message:
      /^Expected within 5 ms: three nodes are Ready\. The last of \d+ looks showed: 2 of 3 nodes are Ready$/,
  });
});
