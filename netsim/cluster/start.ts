/**
 * `npm start`: brings the whole drawing up on real Kubernetes, shows the main job failing without the tunnel and
 * passing with it, then stays up with a live view until Ctrl-C.
 */

import { parseArgs } from "node:util";
import { type Lab, openLab, removeLeftovers } from "#netsim/lab/lab.ts";
import { twoNetworks } from "#netsim/lab/two-networks.ts";
import { type Cluster, openCluster } from "./cluster.ts";
import { showLive } from "./live-view.ts";
import { type Check, type CheckResult, mainJob, runMainJob, settleApis } from "./main-job.ts";
import { installProduct, type Product } from "./product.ts";
import { openPrograms } from "./programs.ts";
import { invitation, resultLine, type StartReport } from "./start-report.ts";

const usage = `usage: npm start -- [--once] [--json]
  --once   run the main job, print its result and stop: exit code 0 when every line is as it should be, 1 else
  --json   with --once: the result as JSON on standard output, progress on standard error`;

const startMs = performance.now();
/** Rough seconds that each part takes on two cores, to say what is left. */
const parts = { lab: 14, failing: 12, tunnel: 4, passing: 20 } as const;
type Part = keyof typeof parts;
const order: readonly Part[] = ["lab", "failing", "tunnel", "passing"];

const say = (text: string): void => void process.stderr.write(`${text}\n`);
const stamp = (): string => `${((performance.now() - startMs) / 1000).toFixed(1).padStart(6)}s`;
const step = (text: string): void => say(`${stamp()}  ${text}`);
const begin = (part: Part, text: string): void => {
  const index = order.indexOf(part);
  const left = order.slice(index).reduce((sum, each) => sum + parts[each], 0);
  step(`[${index + 1}/${order.length}] ${text} (about ${left} s left)`);
};

/** Without the tunnel a check must fail, and as networks fail: another failure would hide behind it. */
const failsAsItMust = (result: CheckResult): boolean => result.outcome.kind === "network-failure";
const passes = (result: CheckResult): boolean => result.outcome.kind === "passed";

/** Runs until `stopping`; what is still open when it comes is closed by the caller. */
const show = async (
  lab: Lab,
  stopping: AbortSignal,
): Promise<{ cluster: Cluster; product: Product; report: StartReport }> => {
  const programs = await openPrograms();
  const cluster = await openCluster(lab, { programs, onProgress: (text) => step(`      ${text}`) });
  await cluster.installAgentsIdentity();
  const product = await installProduct(cluster);
  stopping.throwIfAborted();
  begin("failing", "the main job with the gateways stopped: every line must fail");
  for (const program of [product.controller, ...product.agents.values()]) program.start();
  const checks = mainJob(cluster);
  const onResult = (isRight: (r: CheckResult) => boolean) => (result: CheckResult) =>
    step(`      ${resultLine(result, isRight(result))}`);
  const without = await runMainJob(checks, { inParallel: true, onResult: onResult(failsAsItMust) });
  stopping.throwIfAborted();
  begin("tunnel", "starting the gateways");
  const gatewayMs = performance.now();
  await product.start();
  const readyMs = performance.now() - gatewayMs;
  const [first] = checks;
  if (first === undefined) throw new Error("the main job has no check");
  await firstSuccess(first);
  const firstExecMs = performance.now() - gatewayMs;
  step(
    `      ready after ${readyMs.toFixed(0)} ms, first kubectl exec after ${firstExecMs.toFixed(0)} ms`,
  );
  begin("passing", "the main job through the tunnel: every line must pass");
  await settleApis(cluster);
  stopping.throwIfAborted();
  const through = await runMainJob(checks, { inParallel: false, onResult: onResult(passes) });
  const report = {
    without,
    through,
    readyMs,
    firstExecMs,
    isOk: without.every(failsAsItMust) && through.every(passes),
  };
  return { cluster, product, report };
};

/** The first call may meet a gateway that has just become ready; it is tried until it passes, at most 10 s. */
const firstSuccess = async (check: Check): Promise<void> => {
  const results = [];
  const deadline = performance.now() + 10_000;
  do results.push(...(await runMainJob([check], { inParallel: true })));
  while (!results.some(passes) && performance.now() < deadline);
};

/** The first signal ends the run in order; a second one leaves at once, and the next run cleans up. */
const stopOnSignal = (): AbortController => {
  const stop = new AbortController();
  const onSignal = (): void => {
    if (stop.signal.aborted) process.exit(130);
    say("stopping; once more leaves at once, then the next run cleans up");
    stop.abort(new Error("stopped by a signal"));
  };
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, onSignal);
  return stop;
};

const main = async (): Promise<number> => {
  const { values } = parseArgs({
    options: {
      once: { type: "boolean" },
      json: { type: "boolean" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help === true) {
    process.stdout.write(`${usage}\n`);
    return 0;
  }
  if (values.json === true && values.once !== true) {
    say("--json goes with --once: a live view has no result");
    return 2;
  }
  const stop = stopOnSignal();
  const removed = await removeLeftovers();
  if (removed.length > 0) step(`removed what a killed run had left: ${removed.join(", ")}`);
  begin("lab", "two networks, two clusters, three nodes");
  const lab = await openLab(twoNetworks({ name: "start" }));
  let isOk = false;
  try {
    const { cluster, product, report } = await show(lab, stop.signal);
    isOk = report.isOk;
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
    step(
      isOk
        ? `all ${report.through.length} lines are as they should be, ${seconds} s in all`
        : "some lines are wrong, see above",
    );
    if (values.json === true) process.stdout.write(`${JSON.stringify(report, null, 2)}\n`);
    if (!isOk) step(`logs and state of every machine: ${await lab.evidence()}`);
    if (values.once !== true && isOk) {
      say(invitation(cluster));
      await showLive(product, stop.signal);
    }
    await product.stop();
    await cluster.close();
  } catch (error) {
    if (!stop.signal.aborted) {
      say(error instanceof Error ? error.message : String(error));
      say(`logs and state of every machine: ${await lab.evidence()}`);
    }
  } finally {
    step("removing everything");
    await lab.close();
  }
  return isOk ? 0 : 1;
};

process.exitCode = await main();
