/** Service discovery on fakes: what Prometheus is told, and what it is told instead when nothing is known. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import { NODES, PODS, TUNNELS } from "#src/ports/kube-resource.ts";
import { Discovery } from "./discovery.ts";
import { CONFIG, node, tunnel } from "./gateway-world.ts";
import { ShootView } from "./shoot-view.ts";
import { TunnelView } from "./tunnel-view.ts";

const MAPS = [
  { real: "10.250.0.0/20", mapped: "10.64.0.0/20" },
  { real: "198.18.0.0/23", mapped: "10.65.0.0/23" },
];

const pod = (name: string, app: string, status: object = {}) => ({
  metadata: { namespace: "default", name, labels: { app } },
  spec: {
    nodeName: "n1",
    containers: [{ name: "web", image: "x", ports: [{ name: "http", containerPort: 80 }] }],
  },
  status: { phase: "Running", podIPs: [{ ip: "10.222.1.7" }], ...status },
});

const opened = (pods: string | null, isDown = false) => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock, log });
  const seed = new FakeKube({ clock, log });
  if (isDown) kube.breakDown();
  const onChange = (): void => undefined;
  const random = seededRandom(1);
  const tunnels = new TunnelView({ config: CONFIG, kube: seed, clock, random, log, onChange });
  const shoot = new ShootView(kube, onChange);
  const discovery = new Discovery({ kube, pods, tunnels, shoot });
  t.teardown(() => {
    discovery.stop();
    shoot.stop();
    kube.close();
    seed.close();
  });
  const ask = (path: string) => {
    const page = discovery.page(path);
    return page?.code === 200 ? { ...page, text: JSON.parse(page.text) as unknown } : page;
  };
  return { clock, kube, seed, ask };
};

void t.test("nodes and selected pods are told at mapped addresses, live", async (t) => {
  const { clock, kube, seed, ask } = opened("app=web");
  seed.seed(TUNNELS, { ...tunnel(), status: { addressMaps: MAPS } });
  kube.seed(NODES, node(1));
  kube.seed(PODS, pod("a", "web"), pod("b", "other"));
  await clock.advance(1_000);
  t.match(ask("/discovery/nodes"), {
    code: 200,
    contentType: "application/json",
    text: [{ targets: ["10.64.0.1:10250"], labels: { __meta_xylem_node_name: "n1" } }],
  });
  t.match(ask("/discovery/pods"), {
    code: 200,
    text: [{ targets: ["10.222.1.7:80"], labels: { __meta_xylem_pod_name: "a" } }],
  });
  kube.seed(NODES, node(2));
  await kube.delete(PODS, { namespace: "default", name: "a" });
  await clock.advance(1_000);
  t.match(ask("/discovery/nodes"), { text: { length: 2 } });
  t.match(ask("/discovery/pods"), { code: 200, text: { length: 0 } });
  t.equal(ask("/discovery"), null);
});

void t.test("without a selector no pod is asked for, and the page says what to do", async (t) => {
  const { clock, kube, seed, ask } = opened(null);
  seed.seed(TUNNELS, tunnel());
  await clock.advance(1_000);
  t.match(ask("/discovery/pods"), { code: 404, text: /--discover-pods SELECTOR/u });
  t.notOk(kube.calls.some(({ object }) => object.includes("Pod")));
});

void t.test("what is not known is a failure, so that Prometheus keeps its targets", async (t) => {
  const { clock, kube, seed, ask } = opened("app=web", true);
  await clock.advance(1_000);
  t.match(ask("/discovery/nodes"), { code: 503, text: /outage/u });
  t.match(ask("/discovery/pods"), { code: 503, text: /outage/u });
  kube.recover();
  await clock.advance(60_000);
  t.match(ask("/discovery/nodes"), { code: 503, text: /Tunnel .* does not exist/u });
  seed.seed(TUNNELS, tunnel());
  await clock.advance(1_000);
  t.match(ask("/discovery/nodes"), { code: 200 });
});

void t.test("S2 a pod that nobody can read hides no other", async (t) => {
  const { clock, kube, seed, ask } = opened("app=web");
  seed.seed(TUNNELS, tunnel());
  const odd = pod("odd", "web", { podIPs: [{ ip: "10.222.1.9%eth0" }] });
  kube.seed(PODS, odd, pod("good", "web"));
  await clock.advance(1_000);
  t.match(ask("/discovery/pods"), { text: [{ labels: { __meta_xylem_pod_name: "good" } }] });
});
