import t from "tap";

import { cutCable, restoreCable, setLoss } from "./cable.ts";
import { answersByMachine, sendDatagrams, startEcho } from "./datagrams.ts";
import { type Lab, openLab } from "./lab.ts";
import { forgetFlows, listFlows, setUdpTimeout, unsolicitedPackets } from "./nat.ts";
import { ping } from "./ping.ts";
import type { Topology } from "./topology.ts";
import { nodeNames, twoNetworks, twoNetworksPlan } from "./two-networks.ts";
import { waitFor } from "./wait.ts";

if (process.getuid?.() !== 0) {
  t.pass("all tests of this file", { skip: "needs root: they make network namespaces" });
  process.exit(0);
}
t.setTimeout(120_000);

const plan = twoNetworksPlan;
const public3 = { internet: "198.51.100.1", shootRouter: "198.51.100.2" };
let lab: Lab;
t.before(async () => {
  lab = await openLab(twoNetworks({ name: "test-paths" }));
});
t.teardown(async () => {
  if (!t.passing()) t.comment(`evidence is in ${await lab.evidence()}`);
  await lab.close();
});

void t.test("every drawn path works and no other does", async (t) => {
  const seedSide = ["seed", "apiserver", "prometheus"];
  const inSeed = [plan.seedAddress, plan.apiserverAddress, plan.prometheusAddress];
  const inShoot = nodeNames.map((name) => plan.nodes[name].address);
  const drawn: [from: string, to: string][] = [
    ...seedSide.flatMap((from) =>
      [...inSeed, ...Object.values(public3)].map((to): [string, string] => [from, to]),
    ),
    ...nodeNames.flatMap((from) =>
      [...inShoot, public3.internet, plan.apiserverPublicAddress].map((to): [string, string] => [
        from,
        to,
      ]),
    ),
    ...nodeNames.flatMap((from) =>
      nodeNames.map((to): [string, string] => [from, plan.nodes[to].address6]),
    ),
  ];
  const notDrawn: [from: string, to: string][] = [
    ...[...seedSide, "seed-router", "internet"].flatMap((from) =>
      [...inShoot, "10.128.1.1", "172.28.0.1", plan.nodes.node1.address6].map(
        (to): [string, string] => [from, to],
      ),
    ),
    ...[...nodeNames, "shoot-router", "balancer", "internet"].flatMap((from) =>
      [...inSeed, "fd20:8::10"].map((to): [string, string] => [from, to]),
    ),
  ];
  const answered = async ([from, to]: [string, string]): Promise<string> => {
    const { received } = await ping(lab.namespace(from), to, { count: 1 });
    return `${from} -> ${to}: ${received === 1}`;
  };
  t.same(
    await Promise.all(drawn.map(answered)),
    drawn.map(([from, to]) => `${from} -> ${to}: true`),
  );
  t.same(
    await Promise.all(notDrawn.map(answered)),
    notDrawn.map(([from, to]) => `${from} -> ${to}: false`),
  );
});

void t.test(
  "a node reaches its API server at the public address, and the server sees the shoot's NAT",
  async (t) => {
    const log = "apiserver-tcp.log";
    const listen = ["socat", "TCP-LISTEN:6443,fork,reuseaddr", "SYSTEM:echo $SOCAT_PEERADDR"];
    const server = lab.namespace("apiserver").spawn(listen, { log });
    const dial = [
      "socat",
      "-T2",
      "-",
      `TCP:${plan.apiserverPublicAddress}:6443,retry=400,interval=0.05`,
    ];
    const { stdout } = await lab.namespace("node2").run(dial);
    t.equal(stdout.trim(), public3.shootRouter);
    await server.stop(500);
  },
);

void t.test("the NAT drops what nobody inside asked for, and passes answers", async (t) => {
  const router = lab.namespace("seed-router");
  const before = await unsolicitedPackets(router);
  const echo = await startEcho(lab.namespace("internet"), 7000);
  const inside = await startEcho(lab.namespace("apiserver"), 7001);
  const answers = await sendDatagrams(lab.namespace("apiserver"), {
    address: "203.0.113.1",
    port: 7000,
    count: 3,
  });
  t.equal(answers.length, 3);
  t.equal(answers[0]?.seenAddress, "203.0.113.2", "masqueraded");
  t.equal(await unsolicitedPackets(router), before, "answers are not dropped");
  const refused = await sendDatagrams(lab.namespace("internet"), {
    address: "203.0.113.2",
    port: 7001,
    count: 3,
  });
  t.equal(refused.length, 0);
  t.equal(await unsolicitedPackets(router), before + 3);
  await Promise.all([echo.stop(500), inside.stop(500)]);
});

void t.test("a NAT with a short UDP timeout drops an answer that comes late", async (t) => {
  const router = lab.namespace("seed-router");
  await setUdpTimeout(router, 1);
  const echo = await startEcho(lab.namespace("internet"), 7002);
  await sendDatagrams(lab.namespace("apiserver"), {
    address: "203.0.113.1",
    port: 7002,
    count: 1,
    sourcePort: 7003,
  });
  await waitFor("the flow is forgotten", async () => {
    const flows = await listFlows(router, "udp");
    if (flows.some((flow) => flow.includes("dport=7002"))) throw new Error(flows.join("\n"));
    return true;
  });
  const before = await unsolicitedPackets(router);
  await sendDatagrams(lab.namespace("internet"), {
    address: "203.0.113.2",
    port: 7003,
    count: 1,
    sourcePort: 7004,
  });
  t.equal(await unsolicitedPackets(router), before + 1);
  await setUdpTimeout(router, 30);
  await forgetFlows(router);
  await echo.stop(500);
});

void t.test("a NAT with random ports gives a forgotten flow another port", async (t) => {
  const topology = twoNetworks({ name: "test-ports", natPorts: "random" });
  const other = await openLab(topology);
  t.teardown(() => other.close());
  await startEcho(other.namespace("internet"), 7000);
  const send = async (): Promise<number | undefined> => {
    const options = { address: "203.0.113.1", port: 7000, count: 1, sourcePort: 7100 };
    return (await sendDatagrams(other.namespace("apiserver"), options))[0]?.seenPort;
  };
  const first = await send();
  t.equal(await send(), first, "a live flow keeps its port");
  await forgetFlows(other.namespace("seed-router"));
  t.not(await send(), first);
});

void t.test(
  "a cut cable loses packets without a word, and restoring it brings the machine back",
  async (t) => {
    const to = plan.nodes.node3.address;
    const from = lab.namespace("node1");
    await cutCable(lab, "node3");
    await cutCable(lab, "node3");
    t.equal((await ping(from, to, { count: 2 })).received, 0);
    const { stdout } = await lab.namespace("node3").run(["ip", "link", "show", "eth0"]);
    t.match(stdout, /LOWER_UP/, "the machine sees no change");
    await restoreCable(lab, "node3");
    await restoreCable(lab, "node3");
    t.equal((await ping(from, to, { count: 2 })).received, 2);
  },
);

void t.test("a lossy cable loses its share, and a mended one nothing", async (t) => {
  const to = plan.nodes.node2.address;
  await setLoss(lab, "node2", 50);
  const { received } = await ping(lab.namespace("node1"), to, { count: 60, intervalMs: 10 });
  t.ok(received > 10 && received < 50, `${received} of 60`);
  await setLoss(lab, "node2", 0);
  t.equal((await ping(lab.namespace("node1"), to, { count: 10, intervalMs: 10 })).lost, 0);
});

void t.test(
  "a private address is refused at once by one internet, and swallowed by another",
  async (t) => {
    const dial = [
      "socat",
      "-u",
      "/dev/null",
      `TCP:${plan.nodes.node1.address}:10250,connect-timeout=1`,
    ];
    const refused = await lab.namespace("apiserver").run(dial, { check: false });
    t.match(refused.stderr, /unreachable|No route to host/);
    const silent = await openLab(
      twoNetworks({ name: "test-hole", unknownAddresses: "black hole" }),
    );
    t.teardown(() => silent.close());
    const swallowed = await silent.namespace("apiserver").run(dial, { check: false });
    t.match(swallowed.stderr, /timed out/);
  },
);

void t.test("a delay needs netem, and a kernel without it is named", async (t) => {
  const topology: Topology = {
    name: "test-delay",
    networks: { lan: { ranges: ["10.79.0.0/30"] } },
    machines: {
      a: { interfaces: { eth0: { network: "lan", addresses: ["10.79.0.1/30"] } } },
      b: { interfaces: { eth0: { network: "lan", addresses: ["10.79.0.2/30"], delayMs: 20 } } },
    },
  };
  const outcome = await openLab(topology).then(
    (slow) => ({ slow }),
    (error: unknown) => ({ error }),
  );
  if ("error" in outcome) {
    t.match(outcome.error, { message: /This kernel can't delay packets .*sch_netem/ });
    return;
  }
  t.ok((await ping(outcome.slow.namespace("a"), "10.79.0.2", { count: 3 })).rttMsMin >= 20);
  await outcome.slow.close();
});

void t.test("a program in a namespace is not given the test runner's environment", async (t) => {
  const { stdout } = await lab.namespace("seed").run(["env"], { env: { GIVEN: "yes" } });
  t.match(stdout, /GIVEN=yes/);
  t.notMatch(stdout, /NODE_OPTIONS|^TAP/m);
});

void t.test("answersByMachine counts", (t) => {
  const answer = {
    socket: 0,
    sequence: 0,
    seenAddress: "",
    seenPort: 1,
    fromAddress: "",
    fromPort: 1,
  };
  t.same(
    answersByMachine([
      { ...answer, machine: "a" },
      { ...answer, machine: "a" },
    ]),
    { a: 2 },
  );
  t.end();
});
