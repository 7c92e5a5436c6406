/** Medians, ranges and ratios of samples. */

import t from "tap";
import { median, ratios, rotate, summarize } from "./statistics.ts";

const table = [
  { name: "one sample is its own median", input: [7], want: 7 },
  { name: "the middle of an odd number of samples", input: [9, 1, 5], want: 5 },
  { name: "the mean of the middle two of an even number", input: [4, 1, 2, 100], want: 3 },
  { name: "numbers are ordered as numbers", input: [10, 9, 100], want: 10 },
];

for (const { name, input, want } of table) {
  void t.test(`median: ${name}`, async (t) => {
    t.equal(median(input), want);
  });
}

void t.test("no samples have no median, and no summary pretends otherwise", async (t) => {
  t.ok(Number.isNaN(median([])));
  const summary = summarize([]);
  t.equal(summary.count, 0);
  t.ok(Number.isNaN(summary.low) && Number.isNaN(summary.high));
});

void t.test("a summary leaves its input as it was and tells the range", async (t) => {
  const input = [3, 1, 2];
  t.same(summarize(input), { count: 3, median: 2, low: 1, high: 3 });
  t.same(input, [3, 1, 2]);
});

void t.test("ratios are taken round by round", async (t) => {
  t.same(ratios([4, 9], { theirs: [2, 3] }), [2, 3]);
  t.same(ratios([4, 9], { theirs: [2] }), [2], "a round that one side lacks does not count");
});

void t.test("each round begins with another system", async (t) => {
  t.same(rotate(["a", "b", "c"], 0), ["a", "b", "c"]);
  t.same(rotate(["a", "b", "c"], 1), ["b", "c", "a"]);
  t.same(rotate(["a", "b", "c"], 5), ["c", "a", "b"]);
  t.same(rotate([], 2), []);
});
