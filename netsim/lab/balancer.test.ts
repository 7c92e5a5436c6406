import t from "tap";

import { answersByMachine, sendDatagrams, startEcho } from "./datagrams.ts";
import { type Lab, openLab } from "./lab.ts";
import type { Namespace } from "./namespace.ts";
import { nodeNames, twoNetworks, twoNetworksPlan } from "./two-networks.ts";
import { waitFor } from "./wait.ts";

if (process.getuid?.() !== 0) {
  t.pass("all tests of this file", { skip: "needs root: they make network namespaces" });
  process.exit(0);
}
t.setTimeout(120_000);

const plan = twoNetworksPlan;
const all = [...nodeNames];
let lab: Lab;
let gateway: Namespace;
t.before(async () => {
  lab = await openLab(twoNetworks({ name: "test-balancer" }));
  gateway = lab.namespace("apiserver");
  await Promise.all(nodeNames.map((name) => startEcho(lab.namespace(name), plan.tunnelPort)));
});
t.teardown(async () => {
  if (!t.passing()) t.comment(`evidence is in ${await lab.evidence()}`);
  await lab.close();
});

const toBalancer = { address: plan.balancerAddress, port: plan.tunnelPort };

void t.test("per flow: each source port has one target, many ports have all of them", async (t) => {
  const balancer = lab.balancer("public");
  await balancer.setMode("per-flow");
  const before = await balancer.counters();
  const answers = await sendDatagrams(gateway, {
    ...toBalancer,
    count: 10,
    sockets: 40,
    sourcePort: 44_000,
  });
  t.equal(answers.length, 400);
  for (let socket = 0; socket < 40; socket += 1) {
    const machines = new Set(
      answers.filter((answer) => answer.socket === socket).map(({ machine }) => machine),
    );
    t.equal(machines.size, 1, `socket ${socket}`);
  }
  const counts = answersByMachine(answers);
  t.same(Object.keys(counts).sort(), all, "all targets have flows");
  t.ok(
    answers.every(({ fromAddress }) => fromAddress === plan.balancerAddress),
    "answers come from the balancer",
  );
  t.ok(
    answers.every(({ seenAddress }) => seenAddress === "203.0.113.2"),
    "targets see the client's address",
  );
  const after = await balancer.counters();
  for (const name of all) {
    t.equal(
      (after[name]?.packetsIn ?? 0) - (before[name]?.packetsIn ?? 0),
      counts[name],
      `${name} in`,
    );
    t.equal(
      (after[name]?.packetsOut ?? 0) - (before[name]?.packetsOut ?? 0),
      counts[name],
      `${name} out`,
    );
  }
});

void t.test(
  "per packet: one source port reaches every target, and every answer arrives",
  async (t) => {
    const balancer = lab.balancer("public");
    await balancer.setMode("per-packet");
    const before = await balancer.counters();
    const answers = await sendDatagrams(gateway, { ...toBalancer, count: 150, intervalMs: 2 });
    t.equal(answers.length, 150, "a wrong checksum would lose them");
    const counts = answersByMachine(answers);
    for (const name of all) t.ok((counts[name] ?? 0) > 20, `${name} got ${counts[name]} of 150`);
    t.ok(
      answers.every(
        ({ fromAddress, fromPort }) => fromAddress === plan.balancerAddress && fromPort === 51820,
      ),
    );
    const after = await balancer.counters();
    for (const name of all) {
      t.equal(
        (after[name]?.packetsIn ?? 0) - (before[name]?.packetsIn ?? 0),
        counts[name],
        `${name} in`,
      );
      t.equal(
        (after[name]?.packetsOut ?? 0) - (before[name]?.packetsOut ?? 0),
        counts[name],
        `${name} out`,
      );
    }
    await balancer.setMode("per-flow");
  },
);

void t.test(
  "moving: a live flow goes on with another target, and no datagram is lost",
  async (t) => {
    const balancer = lab.balancer("public");
    await balancer.setMode("moving");
    await balancer.setTargets(["node1"]);
    const sending = sendDatagrams(gateway, {
      ...toBalancer,
      // Ten seconds: each move takes some commands of its own.
      count: 500,
      intervalMs: 20,
      sourcePort: 40_000,
    });
    const reached = async (name: string, already: number): Promise<void> => {
      await waitFor(`${name} gets packets`, async () => {
        const { packetsIn = 0 } = (await balancer.counters())[name] ?? {};
        if (packetsIn > already) return true;
        throw new Error(`${name} has ${packetsIn}`);
      });
    };
    const before = await balancer.counters();
    await reached("node1", before["node1"]?.packetsIn ?? 0);
    await balancer.setTargets(["node2"]);
    await reached("node2", before["node2"]?.packetsIn ?? 0);
    await balancer.setTargets(["node3"]);
    const answers = await sending;
    const order = answers
      .toSorted((a, b) => a.sequence - b.sequence)
      .map(({ machine }) => machine)
      .filter((machine, index, list) => machine !== list[index - 1]);
    t.same(order, ["node1", "node2", "node3"]);
    t.equal(new Set(answers.map(({ sequence }) => sequence)).size, 500);
    await balancer.setMode("per-flow");
    await balancer.setTargets(all);
  },
);

void t.test(
  "per flow: a flow stays where it is when targets are added, and is spread anew by rehash",
  async (t) => {
    const balancer = lab.balancer("public");
    await balancer.setTargets(["node2"]);
    const options = { ...toBalancer, count: 2, sockets: 12, sourcePort: 41_000 };
    t.same(Object.keys(answersByMachine(await sendDatagrams(gateway, options))), ["node2"]);
    await balancer.setTargets(all);
    t.same(Object.keys(answersByMachine(await sendDatagrams(gateway, options))), ["node2"]);
    await balancer.rehash();
    t.ok(Object.keys(answersByMachine(await sendDatagrams(gateway, options))).length > 1);
  },
);

void t.test(
  "the public address moves: the old one answers nothing, the new one everything",
  async (t) => {
    const balancer = lab.balancer("public");
    const [spare] = plan.balancerSpareAddresses;
    await balancer.moveAddress(spare);
    t.equal(balancer.address(), spare);
    t.equal((await sendDatagrams(gateway, { ...toBalancer, count: 3 })).length, 0);
    const answers = await sendDatagrams(gateway, {
      address: spare,
      port: plan.tunnelPort,
      count: 3,
    });
    t.same(
      answers.map(({ fromAddress }) => fromAddress),
      [spare, spare, spare],
    );
    await balancer.moveAddress(plan.balancerAddress);
    t.equal((await sendDatagrams(gateway, { ...toBalancer, count: 3 })).length, 3);
  },
);

void t.test("IPv6 is balanced as IPv4 is, in each mode", async (t) => {
  const balancer = lab.balancer("public");
  const to = { address: plan.balancerAddress6, port: plan.tunnelPort };
  t.equal(balancer.address6(), to.address);
  for (const mode of ["per-flow", "per-packet", "moving"] as const) {
    await balancer.setMode(mode);
    await balancer.setTargets(all);
    const before = await balancer.counters();
    const answers = await sendDatagrams(gateway, {
      ...to,
      count: 5,
      sockets: 32,
      sourcePort: 43_000,
    });
    t.equal(answers.length, 160, mode);
    t.same(Object.keys(answersByMachine(answers)).sort(), all, mode);
    t.ok(
      answers.every(
        (each) => each.fromAddress === to.address && each.seenAddress === "2001:db8:1::2",
      ),
      `${mode}: addresses`,
    );
    const after = await balancer.counters();
    const packets = (of: typeof after): number =>
      Object.values(of).reduce((sum, { packetsIn, packetsOut }) => sum + packetsIn + packetsOut, 0);
    t.equal(packets(after) - packets(before), 320, `${mode}: counters`);
  }
  await balancer.setMode("per-flow");
});

void t.test(
  "per packet: a batch that a sender hands over as one is cut before the balancer",
  async (t) => {
    const balancer = lab.balancer("public");
    const limits = async (): Promise<string[]> => {
      const { stdout } = await lab.switch.run(["ip", "-d", "link", "show", "type", "veth"]);
      return [...stdout.matchAll(/gso_max_segs (\d+)/g)].map(([, segments = ""]) => segments);
    };
    await balancer.setMode("per-packet");
    t.equal((await limits()).filter((segments) => segments === "1").length, 1);
    await balancer.setMode("per-flow");
    t.equal(
      (await limits()).filter((segments) => segments === "1").length,
      0,
      "and only in that mode",
    );
  },
);

void t.test("without a target packets are dropped and counted", async (t) => {
  const balancer = lab.balancer("public");
  for (const mode of ["per-flow", "per-packet"] as const) {
    await balancer.setMode(mode);
    await balancer.setTargets([]);
    const { noTarget } = await balancer.drops();
    t.equal((await sendDatagrams(gateway, { ...toBalancer, count: 3 })).length, 0, mode);
    // Per flow, the rule sees each packet: a dropped flow is not remembered.
    t.equal((await balancer.drops()).noTarget, noTarget + 3, mode);
  }
  await balancer.setMode("per-flow");
  await balancer.setTargets(all);
});

void t.test(
  "P2 the health check takes a dead target out only after its delay, and puts it back",
  async (t) => {
    const balancer = lab.balancer("public");
    let isDead = false;
    const healthDelayMs = 400;
    await balancer.startHealthCheck({
      healthDelayMs,
      intervalMs: 20,
      probe: (target) => !(isDead && target === "node2"),
    });
    const diedMs = performance.now();
    isDead = true;
    await waitFor("node2 serves no more", () => !balancer.serving().includes("node2"), {
      intervalMs: 10,
    });
    t.ok(performance.now() - diedMs >= healthDelayMs, "not before the delay");
    t.same(balancer.serving(), ["node1", "node3"]);
    isDead = false;
    await waitFor("node2 serves again", () => balancer.serving().includes("node2"), {
      intervalMs: 10,
    });
    await balancer.setTargets(all);
  },
);

void t.test("the health check over TCP sees which target listens", async () => {
  const balancer = lab.balancer("public");
  for (const name of ["node1", "node3"]) {
    lab.namespace(name).spawn(["socat", "TCP-LISTEN:9099,fork,reuseaddr", "OPEN:/dev/null"], {
      log: `${name}-health.log`,
    });
  }
  await balancer.startHealthCheck({ probe: { tcpPort: 9099 }, intervalMs: 50 });
  await waitFor(
    "only node1 and node3 serve",
    () => balancer.serving().join() === "node1,node3" || null,
  );
  await balancer.setTargets(all);
});

void t.test(
  "an answer to a forgotten flow is dropped, and the client's next datagram mends it",
  async (t) => {
    const balancer = lab.balancer("public");
    const client = { ...toBalancer, count: 1, sourcePort: 42_000 };
    const [answer] = await sendDatagrams(gateway, client);
    const { machine = "", seenAddress = "", seenPort = 0 } = answer ?? {};
    await balancer.forgetFlows();
    const { stale } = await balancer.drops();
    // The echo keeps its port; a raw packet with that source port is the late answer.
    const node = lab.namespace(machine);
    await node.run(["bash", "-c", lateAnswer(seenAddress, seenPort)]);
    t.equal((await balancer.drops()).stale, stale + 1);
    t.equal((await sendDatagrams(gateway, client)).length, 1);
  },
);

/** UDP header (length 12, checksum 0: none) and four bytes, sent as protocol 17 of a raw socket. */
function lateAnswer(address: string, port: number): string {
  const word = (value: number): string =>
    `\\x${(value >> 8).toString(16).padStart(2, "0")}\\x${(value & 255).toString(16).padStart(2, "0")}`;
  const header = [plan.tunnelPort, port, 12, 0].map(word).join("");
  return `printf '${header}late' | socat -u - IP4-SENDTO:${address}:17`;
}
