import t from "tap";

import {
  type HealthPolicy,
  healthAtStart,
  stepHealth,
  type TargetHealth,
} from "./balancer-health.ts";

const slow: HealthPolicy = { healthDelayMs: 60_000, recoverDelayMs: 5_000 };

/** Believes after probes at the given times. */
const after = (
  probes: readonly [nowMs: number, isHealthy: boolean][],
  policy: HealthPolicy,
): TargetHealth =>
  probes.reduce(
    (health, [nowMs, isHealthy]) => stepHealth(health, { nowMs, isHealthy }, policy),
    healthAtStart,
  );

void t.test("a target is believed in until it has failed for the whole delay", (t) => {
  t.equal(
    after(
      [
        [0, false],
        [59_999, false],
      ],
      slow,
    ).isServing,
    true,
  );
  t.equal(
    after(
      [
        [0, false],
        [60_000, false],
      ],
      slow,
    ).isServing,
    false,
  );
  t.end();
});

void t.test("one good probe starts the delay anew", (t) => {
  t.equal(
    after(
      [
        [0, false],
        [59_000, true],
        [60_000, false],
        [119_000, false],
      ],
      slow,
    ).isServing,
    true,
  );
  t.end();
});

void t.test("a target comes back once it has answered for the recovery delay", (t) => {
  const dead: [number, boolean][] = [
    [0, false],
    [60_000, false],
  ];
  t.equal(after([...dead, [61_000, true], [65_999, true]], slow).isServing, false);
  t.equal(after([...dead, [61_000, true], [66_000, true]], slow).isServing, true);
  t.end();
});

void t.test("without delays a single probe decides", (t) => {
  const eager: HealthPolicy = { healthDelayMs: 0, recoverDelayMs: 0 };
  t.equal(after([[0, false]], eager).isServing, false);
  t.equal(
    after(
      [
        [0, false],
        [1, true],
      ],
      eager,
    ).isServing,
    true,
  );
  t.end();
});
