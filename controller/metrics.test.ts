/** What a scrape of the controller says. */

import t from "tap";
import { TUNNELS } from "#src/ports/kube-resource.ts";
import { NAME, tunnel, world } from "./controller-world.ts";
import { type ControllerMetricsSource, createControllerMetrics } from "./metrics.ts";

const lines = async (metrics: ReturnType<typeof createControllerMetrics>): Promise<string[]> =>
  (await metrics.text()).text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));

void t.test("Tunnels by condition, passes and readiness are counted", async (t) => {
  const { clock, seed, start } = world();
  const source: ControllerMetricsSource = {
    tunnels: () => controller.tunnels(),
    isReady: () => controller.problem() === null,
  };
  const metrics = createControllerMetrics(source);
  seed.seed(TUNNELS, tunnel(), { metadata: { namespace: "other", name: "bad" }, spec: {} });
  const controller = start({ onPass: metrics.onPass });
  t.match(await lines(metrics), [
    "xylem_controller_ready 0",
    "xylem_tunnels 0",
    'xylem_controller_passes_total{outcome="reached"} 0',
  ]);
  await clock.advance(3_000);
  const told = await lines(metrics);
  for (const line of [
    "xylem_controller_ready 1",
    "xylem_tunnels 2",
    'xylem_tunnels_by_condition{condition="Accepted",status="True"} 1',
    'xylem_tunnels_by_condition{condition="Accepted",status="False"} 1',
    'xylem_tunnels_by_condition{condition="Ready",status="False"} 2',
  ]) {
    t.ok(told.includes(line), line);
  }
  t.ok(told.some((line) => /passes_total\{outcome="reached"\} [1-9]/u.test(line)));
  t.ok(told.some((line) => /passes_total\{outcome="rejected"\} [1-9]/u.test(line)));
  await seed.delete(TUNNELS, { namespace: "other", name: "bad" });
  await clock.advance(2_000);
  t.ok((await lines(metrics)).includes("xylem_tunnels 1"));
  t.notOk((await lines(metrics)).some((line) => line.includes('"Accepted",status="False"')));
  await controller.stop();
});

void t.test("a seed that fails in a pass counts as one to be retried", async (t) => {
  const { clock, seed, start } = world();
  const results: string[] = [];
  seed.seed(TUNNELS, tunnel());
  seed.failNext("patch", "server-error");
  const controller = start({ onPass: ({ kind }) => results.push(kind) });
  await clock.advance(3_000);
  t.equal(results[0], "retry");
  t.ok(results.includes("reached"));
  t.ok(seed.peek(TUNNELS, NAME)?.metadata["finalizers"]);
  await controller.stop();
});

void t.test("writes and errors are counted by cluster", async (t) => {
  const metrics = createControllerMetrics({ tunnels: () => null, isReady: () => true });
  metrics.calls("seed").onWrite({ verb: "create", kind: "Secret" });
  metrics.calls("shoot").onError({ verb: "get", kind: "TunnelGateways", code: "timeout" });
  metrics.calls("shoot").onError({ verb: "get", kind: "TunnelGateways", code: "timeout" });
  const told = await lines(metrics);
  const write = 'xylem_controller_writes_total{cluster="seed",verb="create",kind="Secret"} 1';
  t.ok(told.includes(write));
  t.ok(told.includes('xylem_controller_errors_total{cluster="shoot",code="timeout"} 2'));
});
