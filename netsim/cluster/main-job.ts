/** The main job: everything that an API server and a Prometheus must be able to do in a shoot, as timed checks. */

import { createHash, randomBytes } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { CommandError } from "#netsim/lab/process.ts";
import type { RunResult } from "#netsim/lab/process.ts";
import { waitFor } from "#netsim/lab/wait.ts";
import type { Cluster } from "./cluster.ts";
import type { Kubectl } from "./kubectl.ts";
import type { Prometheus } from "./prometheus.ts";
import { guardedNamespace, webPod, webPort, webhookRefusal } from "./workloads.ts";

/** One sentence that a person believes: what was seen. */
export type Evidence = string;

export interface Check {
  readonly name: string;
  /** Rejects with what went wrong, in the words of the program that failed. */
  readonly run: () => Promise<Evidence>;
}

export type CheckOutcome =
  | { readonly kind: "passed"; readonly evidence: Evidence }
  /** Failed for want of a way to the shoot; a hang counts, for pooled connections hang when a route goes. */
  | { readonly kind: "network-failure"; readonly isHung: boolean; readonly error: string }
  /** Failed for another reason: never what a test wants. */
  | { readonly kind: "other-failure"; readonly error: string };

export interface CheckResult {
  readonly name: string;
  readonly durationMs: number;
  readonly outcome: CheckOutcome;
}

export interface MainJobOptions {
  /** Limit of each command; default 10,000. `cp` has six times as much. */
  readonly timeoutMs?: number;
  /** Default 50. */
  readonly copyMegabytes?: number;
}

/** What the main job needs of a lab's clusters. */
export interface JobSite extends Pick<Cluster, "lab" | "programs" | "folder" | "machine"> {
  readonly shoot: { readonly kubectl: Kubectl };
  readonly site: {
    readonly nodes: readonly { readonly name: string }[];
    /** Where kubectl runs. */
    readonly seed: { readonly machine: string };
  };
  /** Null: nobody scrapes, and the job lacks that line. */
  readonly prometheus: Pick<Prometheus, "targets"> | null;
}

/** What programs say when there is no way to the shoot. */
export const networkError =
  /dial unix|network is unreachable|no route to host|i\/o timeout|connection error|service unavailable|deadline exceeded|unable to handle the request|Service Unavailable|Metrics API not available|error dialing backend|connection refused|Timeout|timed out/;

/** How the lab speaks of a command that it had to end, and of a wait in which nothing was to be seen at all. */
const endedByLab = "did not end within";
const sawNothing = /^Expected within .* looks showed: (null|.*targets not scraped yet)$/;

/** Runs one check; never rejects. */
export async function runCheck(check: Check): Promise<CheckResult> {
  const startMs = performance.now();
  const outcome = await check.run().then(
    (evidence): CheckOutcome => ({ kind: "passed", evidence }),
    (error: unknown): CheckOutcome => failure(error),
  );
  return { name: check.name, durationMs: performance.now() - startMs, outcome };
}

/** Runs the checks: one after the other for honest times, or all at once where only the outcome matters. */
export async function runMainJob(
  checks: readonly Check[],
  options: { readonly inParallel: boolean; readonly onResult?: (result: CheckResult) => void },
): Promise<readonly CheckResult[]> {
  const one = async (check: Check): Promise<CheckResult> => {
    const result = await runCheck(check);
    options.onResult?.(result);
    return result;
  };
  if (options.inParallel) return Promise.all(checks.map(one));
  const results: CheckResult[] = [];
  for (const check of checks) results.push(await one(check));
  return results;
}

/**
 * After a way to the shoot opens: waits until the API server has noticed that the APIs in the shoot answer.
 * It looks again with a back-off of up to 30 s of its own, which a change of the APIService cuts short.
 */
export async function settleApis(cluster: JobSite, timeoutMs = 60_000): Promise<void> {
  const { kubectl } = cluster.shoot;
  const names = ["v1.lab.example", "v1beta1.metrics.k8s.io"];
  const look = async (): Promise<boolean> => {
    const stamp = `xylem.dev/nudged=${Date.now()}`;
    await kubectl.run(["annotate", "--overwrite", "apiservice", ...names, stamp]);
    const seen = await Promise.all([
      kubectl.raw("/apis/lab.example/v1/probes", { timeoutMs: 3000 }),
      kubectl.raw("/apis/metrics.k8s.io/v1beta1/nodes", { timeoutMs: 3000 }),
    ]);
    const listed = JSON.parse(seen[1].stdout) as { readonly items: readonly unknown[] };
    if (listed.items.length === cluster.site.nodes.length) return true;
    throw new Error(`metrics of ${listed.items.length} of ${cluster.site.nodes.length} nodes`);
  };
  await waitFor("the aggregated APIs answer", look, { timeoutMs, intervalMs: 500 });
}

/** Makes the web pod of a node write one line to its log; the request comes from that node, not through a tunnel. */
export async function say(
  cluster: JobSite,
  options: { readonly node: string; readonly line: string },
): Promise<void> {
  const { node, line } = options;
  const path = "jsonpath={.status.podIP}";
  const { stdout: address } = await cluster.shoot.kubectl.run([
    "get",
    "pod",
    webPod(node),
    "-o",
    path,
  ]);
  const url = `http://${address}:${webPort}/say?line=${encodeURIComponent(line)}`;
  await cluster.machine(node).run([cluster.programs.labpod, "get", url]);
}

/** The checks, in the order in which a person would try them. */
export function mainJob(cluster: JobSite, options: MainJobOptions = {}): readonly Check[] {
  const timeoutMs = options.timeoutMs ?? 10_000;
  const context: Context = { cluster, timeoutMs, copyMegabytes: options.copyMegabytes ?? 50 };
  const nodes = cluster.site.nodes.map(({ name }) => name);
  const [node = ""] = nodes;
  const { prometheus } = cluster;
  return [
    ...nodes.map((name) => ({ name: `kubectl exec on ${name}`, run: () => exec(context, name) })),
    { name: "kubectl logs -f", run: () => follow(context) },
    { name: "kubectl port-forward", run: () => portForward(context, nodes[1] ?? node) },
    {
      name: `kubectl cp of ${context.copyMegabytes} MB`,
      run: () => copy(context, nodes[2] ?? node),
    },
    { name: "kubectl top node", run: () => top(context, "node", nodes) },
    { name: "kubectl top pod", run: () => top(context, "pod", nodes.map(webPod)) },
    { name: "webhook allows", run: () => webhookAllows(context) },
    { name: "webhook denies", run: () => webhookDenies(context) },
    { name: "aggregated API", run: () => aggregated(context) },
    { name: "kubectl proxy to a service", run: () => proxy(context) },
    { name: "proxy to a pod", run: () => proxyPod(context, node) },
    { name: "proxy to a node", run: () => proxyNode(context, node) },
    ...(prometheus === null
      ? []
      : [{ name: "Prometheus targets", run: () => targets(context, prometheus) }]),
  ];
}

interface Context {
  readonly cluster: JobSite;
  readonly timeoutMs: number;
  readonly copyMegabytes: number;
}

/** What the program itself said; one that had to be ended has nothing to say but that. */
function failure(error: unknown): CheckOutcome {
  if (error instanceof CommandError && error.result !== null) {
    const isHung = error.message.includes(endedByLab);
    const text = isHung ? "no answer in time" : error.result.stderr.trim();
    return verdict(text, isHung);
  }
  const text = error instanceof Error ? error.message : String(error);
  return verdict(text, sawNothing.test(text) || text.includes(endedByLab));
}

function verdict(error: string, isHung: boolean): CheckOutcome {
  if (isHung || networkError.test(error)) return { kind: "network-failure", isHung, error };
  return { kind: "other-failure", error };
}

async function exec({ cluster, timeoutMs }: Context, node: string): Promise<Evidence> {
  const pod = webPod(node);
  const { stdout } = await cluster.shoot.kubectl.run(["exec", pod, "--", "hostname"], {
    timeoutMs,
  });
  if (stdout.trim() !== pod) throw new Error(`exec in ${pod} answered ${stdout.trim()}`);
  return `hostname in the pod: ${stdout.trim()}`;
}

/** Asks once without kubectl first: kubectl hides the error behind ten more tries. */
async function follow(context: Context): Promise<Evidence> {
  const { cluster, timeoutMs } = context;
  await rawText(cluster, "/api/v1/namespaces/default/pods/talker/log?tailLines=1", timeoutMs);
  const startMs = Date.now();
  return withProgram(context, ["logs", "-f", "--tail=0", "talker"], (text) => {
    const line = /line (\d+) at (\d+)/.exec(text);
    if (line === null || Number(line[2]) < startMs) return null;
    return `line ${line[1]} was written ${Number(line[2]) - startMs} ms after the follow began`;
  });
}

async function portForward(context: Context, node: string): Promise<Evidence> {
  const { cluster, timeoutMs } = context;
  const args = ["port-forward", `pod/${webPod(node)}`, `:${webPort}`];
  const namespace = cluster.lab.namespace(cluster.site.seed.machine);
  return withProgram(context, args, async (text) => {
    const port = /Forwarding from 127\.0\.0\.1:(\d+)/.exec(text)?.[1];
    if (port === undefined) return null;
    const url = `http://127.0.0.1:${port}/`;
    const { stdout } = await namespace.run([cluster.programs.labpod, "get", url], { timeoutMs });
    return stdout.includes(`hello from ${webPod(node)}`) ? stdout.trim() : null;
  });
}

async function proxy(context: Context): Promise<Evidence> {
  const { cluster, timeoutMs } = context;
  const namespace = cluster.lab.namespace(cluster.site.seed.machine);
  return withProgram(context, ["proxy", "--port=0"], async (text) => {
    const address = /Starting to serve on (\S+)/.exec(text)?.[1];
    if (address === undefined) return null;
    const url = `http://${address}/api/v1/namespaces/default/services/web:80/proxy/`;
    const got = await namespace.run([cluster.programs.labpod, "get", url], {
      timeoutMs,
      check: false,
    });
    if (got.code !== 0) throw new FinalError(answerOf(got));
    return got.stdout.trim();
  });
}

async function copy(
  { cluster, timeoutMs, copyMegabytes }: Context,
  node: string,
): Promise<Evidence> {
  const { kubectl } = cluster.shoot;
  const folder = join(cluster.folder, "copy");
  await mkdir(folder, { recursive: true });
  const there = join(folder, "there");
  const back = join(folder, "back");
  const data = randomBytes(copyMegabytes * 1_000_000);
  const pod = webPod(node);
  const limit = { timeoutMs: timeoutMs * 6 };
  try {
    await writeFile(there, data);
    const startMs = performance.now();
    await kubectl.run(["cp", "--retries=0", there, `${pod}:/tmp/copy`], limit);
    const thereMs = performance.now();
    const inPod = await kubectl.run(["exec", pod, "--", "sha256sum", "/tmp/copy"], limit);
    const hashedMs = performance.now();
    await kubectl.run(["cp", "--retries=0", `${pod}:/tmp/copy`, back], limit);
    const backMs = performance.now();
    const wanted = sha256(data);
    if (!inPod.stdout.startsWith(wanted))
      throw new Error(`in the pod the checksum is ${inPod.stdout}`);
    if (sha256(await readFile(back)) !== wanted)
      throw new Error("the checksum differs on the way back");
    const rate = (ms: number): string => `${((copyMegabytes / ms) * 1000).toFixed(0)} MB/s`;
    return `${rate(thereMs - startMs)} there, ${rate(backMs - hashedMs)} back, sha256 ${wanted.slice(0, 12)} at all three`;
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function top(
  { cluster, timeoutMs }: Context,
  what: "node" | "pod",
  names: readonly string[],
): Promise<Evidence> {
  const { stdout } = await cluster.shoot.kubectl.run(["top", what, "--no-headers"], { timeoutMs });
  const missing = names.filter((name) => !stdout.includes(name));
  if (missing.length > 0) throw new Error(`top ${what} lacks ${missing.join(", ")}: ${stdout}`);
  const [first = ""] = stdout.split("\n");
  return `${stdout.trim().split("\n").length} lines; ${first.trim().replace(/\s+/g, " ")}`;
}

function configMap(labels: Readonly<Record<string, string>>): string {
  const metadata = { generateName: "checked-", namespace: guardedNamespace, labels };
  return JSON.stringify({ apiVersion: "v1", kind: "ConfigMap", metadata });
}

async function webhookAllows({ cluster, timeoutMs }: Context): Promise<Evidence> {
  const options = { timeoutMs, input: configMap({}) };
  const { stdout } = await cluster.shoot.kubectl.run(["create", "-f", "-"], options);
  return stdout.trim();
}

async function webhookDenies({ cluster, timeoutMs }: Context): Promise<Evidence> {
  const options = { timeoutMs, input: configMap({ deny: "yes" }), check: false };
  const { code, stderr } = await cluster.shoot.kubectl.run(["create", "-f", "-"], options);
  if (code === 0) throw new Error("the webhook should have refused the ConfigMap");
  if (!stderr.includes(webhookRefusal)) throw new Error(stderr.trim());
  return stderr.trim();
}

async function aggregated({ cluster, timeoutMs }: Context): Promise<Evidence> {
  const text = await rawText(cluster, "/apis/lab.example/v1/probes", timeoutMs);
  if (!text.includes('"name":"alive"')) throw new Error(`the aggregated API answered ${text}`);
  return "probes.lab.example lists: alive";
}

async function proxyPod({ cluster, timeoutMs }: Context, node: string): Promise<Evidence> {
  const path = `/api/v1/namespaces/default/pods/${webPod(node)}:${webPort}/proxy/`;
  return (await rawText(cluster, path, timeoutMs)).trim();
}

async function proxyNode({ cluster, timeoutMs }: Context, node: string): Promise<Evidence> {
  return `healthz of ${node}: ${await rawText(cluster, `/api/v1/nodes/${node}/proxy/healthz`, timeoutMs)}`;
}

async function rawText(cluster: JobSite, path: string, timeoutMs: number): Promise<string> {
  const got = await cluster.shoot.kubectl.raw(path, { timeoutMs, check: false });
  if (got.code !== 0) throw new Error(answerOf(got));
  return got.stdout;
}

/** The message of a Kubernetes Status, or else what there is. */
function answerOf({ stdout, stderr }: RunResult): string {
  const message = /"message":\s*"((?:[^"\\]|\\.)*)"/.exec(stdout)?.[1];
  return message ?? `${stderr.trim()} ${stdout.trim()}`.trim();
}

/** Only scrapes that began after the check did count: an old success proves nothing. */
async function targets(
  { timeoutMs }: Context,
  prometheus: Pick<Prometheus, "targets">,
): Promise<Evidence> {
  const startMs = Date.now();
  return waitFor(
    "every Prometheus target is up",
    async () => {
      const found = await prometheus.targets();
      const stale = found.filter(({ lastScrapeMs }) => lastScrapeMs < startMs);
      const down = found.filter(({ isUp }) => !isUp);
      if (found.length === 0 || stale.length > 0)
        throw new Error(`${stale.length} targets not scraped yet`);
      if (down.length > 0)
        throw new Error(down.map((d) => `${d.job} ${d.instance}: ${d.lastError}`).join("; "));
      const count = (job: string): number => found.filter((target) => target.job === job).length;
      return `up: ${count("kubelet")} of ${count("kubelet")} kubelets, ${count("pod")} of ${count("pod")} pods`;
    },
    { timeoutMs: Math.min(timeoutMs, 5000), intervalMs: 200 },
  );
}

/** An error that more waiting will not cure. */
class FinalError extends Error {}

type Look = { readonly evidence: Evidence } | { readonly error: Error };

/** Runs kubectl until `look` finds its evidence in what kubectl has written so far. */
async function withProgram(
  { cluster, timeoutMs }: Context,
  args: readonly string[],
  look: (text: string) => Evidence | null | Promise<Evidence | null>,
): Promise<Evidence> {
  const name = `kubectl ${args[0] ?? ""}`;
  const log = join(cluster.folder, `${args[0] ?? ""}-${randomBytes(4).toString("hex")}.log`);
  const running = cluster.shoot.kubectl.spawn(args, log);
  const attempt = async (): Promise<Look | null> => {
    const hadEnded = !running.isRunning();
    const text = await readFile(log, "utf8");
    try {
      const evidence = await look(text);
      if (evidence !== null) return { evidence };
    } catch (error) {
      if (!(error instanceof FinalError)) throw error;
      return { error };
    }
    return hadEnded ? { error: new Error(`${name} ended: ${text.trim()}`) } : null;
  };
  try {
    const seen = await waitFor(`${name} does its work`, attempt, { timeoutMs, intervalMs: 20 });
    if ("error" in seen) throw seen.error;
    return seen.evidence;
  } finally {
    running.kill("SIGKILL");
    await running.exited;
    await rm(log, { force: true });
  }
}

function sha256(data: Buffer): string {
  return createHash("sha256").update(data).digest("hex");
}
