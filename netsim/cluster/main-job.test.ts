import t from "tap";
import { runCheck, runMainJob } from "./main-job.ts";
import type { Check } from "./main-job.ts";

const failing = (message: string): Check => ({
  name: "check",
  run: () => Promise.reject(new Error(message)),
});

t.test("a failure counts as the network's only by its message", async (t) => {
  const rows = [
    {
      message: "error dialing backend: dial tcp 10.250.1.11:10250: i/o timeout",
      want: "network-failure",
      isHung: false,
    },
    { message: "connect: network is unreachable", want: "network-failure", isHung: false },
    { message: "error: Metrics API not available", want: "network-failure", isHung: false },
    {
      message: "Expected within 5000 ms: it works. The last of 9 looks showed: null",
      want: "network-failure",
      isHung: true,
    },
    {
      message: "Expected within 5000 ms: it works. The last of 9 looks showed: 404 Not Found",
      want: "other-failure",
      isHung: undefined,
    },
    { message: 'error: unknown command "exce"', want: "other-failure", isHung: undefined },
    { message: 'pods "web" not found', want: "other-failure", isHung: undefined },
  ];
  for (const { message, want, isHung } of rows) {
    const { outcome } = await runCheck(failing(message));
    t.equal(outcome.kind, want, message);
    if (outcome.kind === "network-failure") t.equal(outcome.isHung, isHung);
  }
});

t.test("results come in the order of the checks, each reported once", async (t) => {
  const checks = ["a", "b", "c"].map((name) => ({
    name,
    run: () => Promise.resolve(`did ${name}`),
  }));
  for (const inParallel of [true, false]) {
    const reported: string[] = [];
    const onResult = ({ name }: { readonly name: string }): number => reported.push(name);
    const results = await runMainJob(checks, { inParallel, onResult });
    t.strictSame(
      results.map(({ name }) => name),
      ["a", "b", "c"],
    );
    t.strictSame(reported, ["a", "b", "c"]);
    t.match(results[1], { outcome: { kind: "passed", evidence: "did b" } });
  }
});
