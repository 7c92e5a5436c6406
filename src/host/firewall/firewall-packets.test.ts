/**
 * Packets through our real rules, as root in fresh network namespaces:
 *
 *   seed 198.18.0.1 ---- xylem0 [ node ] pod0 ---- pod 10.222.5.2
 *        fd00:18::1             [      ]           fd00:222:5::2, dialed as 10.64.5.2, fd99:5::2
 *        10.65.0.1, fd98::1     [      ]
 *                               [      ] lan0 ---- stranger 192.168.7.2, fd00:7::2
 *                                                  and, spoofed, 198.18.1.9, fd00:18::9
 *
 * Here xylem0 is a veth: to netfilter an interface is its name.
 */

import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { createInterface, type Interface } from "node:readline";
import { setTimeout as wait } from "node:timers/promises";
import t, { type Test } from "tap";
import { freshNamespace } from "../network/fresh-namespace.ts";
import {
  agentTable,
  apartGatewayTable,
  gatewayTable,
  mappedAgentTable,
} from "./firewall-compliance.ts";
import { NftFirewall } from "./nft-firewall.ts";

const ADDRESSES = {
  4: {
    seed: "198.18.0.1",
    pod: "10.222.5.2",
    podGateway: "10.222.5.1",
    stranger: "192.168.7.2",
    lan: "192.168.7.1",
    spoofed: "198.18.1.9",
    node: "198.18.0.254",
    mappedSeed: "10.65.0.1",
    mappedPod: "10.64.5.2",
    mappedNobody: "10.64.6.2",
  },
  6: {
    seed: "fd00:18::1",
    pod: "fd00:222:5::2",
    podGateway: "fd00:222:5::1",
    stranger: "fd00:7::2",
    lan: "fd00:7::1",
    spoofed: "fd00:18::9",
    node: "fd00:18::254",
    mappedSeed: "fd98::1",
    mappedPod: "fd99:5::2",
    mappedNobody: "fd99:6::2",
  },
} as const;
const PORT = 9_000;
/** Bounds a wait for what must come; what must not come is proven by a counter. */
const WAIT_MS = 5_000;

const namespace = freshNamespace(import.meta.filename);
switch (namespace.kind) {
  case "inside":
    await packetTests();
    break;
  case "outside":
    void t.spawn(namespace.command, [...namespace.args], { env: namespace.env }, "packets");
    break;
  case "impossible":
    void t.test("packets", { skip: namespace.reason }, () => undefined);
    break;
}

async function packetTests(): Promise<void> {
  const machines = {
    seed: await machine(),
    pod: await machine(),
    stranger: await machine(),
  };
  t.teardown(() => Object.values(machines).forEach((m) => m.keeper.stdin?.end()));
  const node = place([]);
  wire(machines);
  const firewall = new NftFirewall();

  for (const family of [4, 6] as const) {
    const at = ADDRESSES[family];
    const count = async (kind: string): Promise<number> =>
      (await firewall.observe())?.counters[kind] ?? 0;
    const counted = async (t: Test, kind: string, send: () => void): Promise<void> => {
      const before = await count(kind);
      send();
      const deadline = performance.now() + WAIT_MS;
      while ((await count(kind)) === before && performance.now() < deadline) await wait(20);
      t.ok((await count(kind)) > before, `${kind} was hit`);
    };

    await t.test(
      `agent IPv${family}: tunnel traffic reaches a pod with the node's own address as source`,
      async (t) => {
        await firewall.replace(agentTable);
        const pod = await listener(machines.pod, family);
        machines.seed.send(at.pod);
        t.equal(await pod.next(), at.podGateway);
        t.ok((await count("masquerade")) > 0);
        pod.stop();
      },
    );

    await t.test(
      `W39 agent IPv${family}: traffic of other interfaces keeps its source, transit addresses included`,
      async (t) => {
        await firewall.replace(agentTable);
        const pod = await listener(machines.pod, family);
        machines.stranger.send(at.pod, at.stranger);
        t.equal(await pod.next(), at.stranger);
        machines.stranger.send(at.pod, at.spoofed);
        t.equal(await pod.next(), at.spoofed);
        t.equal(await count("masquerade"), 0);
        pod.stop();
      },
    );

    await t.test(
      `agent IPv${family}: the tunnel reaches only the approved destinations`,
      async (t) => {
        await firewall.replace(agentTable);
        await counted(t, "only-destinations", () => machines.seed.send(at.stranger));
        await counted(t, "only-destinations", () => machines.seed.send(at.stranger));
      },
    );

    await t.test(
      `agent IPv${family}: nothing new goes into the tunnel, from pods or from the node`,
      async (t) => {
        await firewall.replace(agentTable);
        await counted(t, "drop-new-into", () => machines.pod.send(at.seed));
        await counted(t, "drop-new-into", () => node.send(at.seed));
      },
    );

    await t.test(
      `agent IPv${family}: replies of the pod and of the node go into the tunnel`,
      async (t) => {
        await firewall.replace(agentTable);
        for (const [where, to] of [
          [machines.pod, at.pod],
          [node, at.node],
        ] as const) {
          const echo = await listener(where, family);
          t.equal(machines.seed.ask(to), "hello");
          echo.stop();
        }
      },
    );

    await t.test(
      `agent IPv${family}: a pod is reached at its mapped address, and answers from there`,
      async (t) => {
        await firewall.replace(mappedAgentTable);
        const pod = await listener(machines.pod, family);
        t.equal(machines.seed.ask(at.mappedPod, at.mappedSeed), "hello");
        t.equal(await pod.next(), at.podGateway, "masqueraded like any other");
        t.equal(machines.seed.ask(at.pod, at.seed), "hello", "its real address still works");
        pod.stop();
        for (const kind of ["map-destination", "map-source"]) t.ok((await count(kind)) > 0, kind);
      },
    );

    await t.test(
      `agent IPv${family}: a mapped address that the agent does not know is refused`,
      async (t) => {
        await firewall.replace(mappedAgentTable);
        await counted(t, "only-destinations", () => {
          machines.seed.send(at.mappedNobody, at.mappedSeed);
        });
        await firewall.replace(agentTable);
        await counted(t, "only-destinations", () => {
          machines.seed.send(at.mappedPod, at.mappedSeed);
        });
      },
    );

    await t.test(
      `gateway IPv${family}: answers to others get our mark, its own questions do not`,
      async (t) => {
        await firewall.replace(apartGatewayTable);
        const mark = async (): Promise<number> => count("mark-answers");
        const seed = await listener(machines.seed, family);
        t.equal(node.ask(at.seed), "hello");
        seed.stop();
        t.equal(await mark(), 0);
        const own = await listener(node, family, at.lan);
        // The answer's route leads to xylem0, as that to an address of both clusters does.
        run([], `ip -${family} route replace ${at.stranger} dev xylem0`);
        await counted(t, "mark-answers", () => machines.stranger.send(at.lan, at.stranger));
        run([], `ip -${family} route del ${at.stranger} dev xylem0`);
        own.stop();
      },
    );

    await t.test(
      `gateway IPv${family}: the pod's own connections get answers, the tunnel begins nothing`,
      async (t) => {
        await firewall.replace(gatewayTable);
        const seed = await listener(machines.seed, family);
        t.equal(node.ask(at.seed), "hello");
        seed.stop();
        t.ok((await count("accept-replies")) > 0);
        await counted(t, "drop-new", () => machines.seed.send(at.node));
        await counted(t, "drop-new", () => machines.seed.send(at.pod));
        const pod = await listener(machines.pod, family);
        t.equal(machines.stranger.ask(at.pod, at.stranger), "hello", "others are not filtered");
        pod.stop();
      },
    );
  }
  await firewall.remove();
}

interface Place {
  /** The command that runs another one there. */
  readonly enter: readonly string[];
  /** Sends one UDP datagram. */
  send(to: string, from?: string): void;
  /** Sends one UDP datagram and gives what comes back, or why nothing did. */
  ask(to: string, from?: string): string;
}

interface Machine extends Place {
  readonly keeper: ChildProcess;
  readonly pid: number;
}

function place(enter: readonly string[]): Place {
  return {
    enter,
    send: (to, from) => void talk({ enter, to, from: from ?? null, waits: false }),
    ask: (to, from) => talk({ enter, to, from: from ?? null, waits: true }),
  };
}

/** A namespace that lives as long as a `cat` that reads from us. */
async function machine(): Promise<Machine> {
  const keeper = spawn("unshare", ["--net", "sh", "-c", "echo ready; exec cat"], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const { pid, stdout } = keeper;
  if (pid === undefined) throw new Error("unshare did not start");
  await new Promise((resolve) => stdout.once("data", resolve));
  return { keeper, pid, ...place(["nsenter", `--net=/proc/${pid}/ns/net`]) };
}

/** Draws the picture at the head of this file. */
function wire(machines: Record<"seed" | "pod" | "stranger", Machine>): void {
  const links = [
    {
      name: "xylem0",
      to: machines.seed,
      ends: { 4: ["198.18.0.254/24", "198.18.0.1/24"], 6: ["fd00:18::254/64", "fd00:18::1/64"] },
    },
    {
      name: "pod0",
      to: machines.pod,
      ends: { 4: ["10.222.5.1/24", "10.222.5.2/24"], 6: ["fd00:222:5::1/64", "fd00:222:5::2/64"] },
    },
    {
      name: "lan0",
      to: machines.stranger,
      ends: { 4: ["192.168.7.1/24", "192.168.7.2/24"], 6: ["fd00:7::1/64", "fd00:7::2/64"] },
    },
  ];
  run([], "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1");
  run([], "ip link set lo up");
  for (const { name, to, ends } of links) {
    const [mac, peerMac] = ["02:00:00:00:00:01", "02:00:00:00:00:02"];
    const peer = `peer name eth0 address ${peerMac} netns ${to.pid}`;
    run([], `ip link add ${name} address ${mac} type veth ${peer}`);
    for (const family of [4, 6] as const) {
      const nodad = family === 6 ? " nodad" : "";
      const [here, there] = ends[family];
      run([], `ip addr add ${here} dev ${name}${nodad}`);
      run(to.enter, `ip addr add ${there} dev eth0${nodad}`);
    }
    run([], `ip link set ${name} up`);
    run(to.enter, "ip link set eth0 up");
    run(to.enter, "ip link set lo up");
    for (const family of [4, 6] as const) {
      // A TUN has no neighbour discovery, and our filter would drop it.
      const [here, there] = ends[family].map((cidr) => cidr.split("/")[0]);
      run([], `ip neigh add ${there} lladdr ${peerMac} dev ${name} nud permanent`);
      run(to.enter, `ip neigh add ${here} lladdr ${mac} dev eth0 nud permanent`);
    }
    run(to.enter, `ip route add default via ${ends[4][0]?.split("/")[0]}`);
    run(to.enter, `ip -6 route add default via ${ends[6][0]?.split("/")[0]}`);
  }
  for (const family of [4, 6] as const) {
    const { mappedSeed, mappedPod, mappedNobody, stranger } = ADDRESSES[family];
    // Without our filter they would go to a stranger.
    for (const to of [mappedPod, mappedNobody])
      run([], `ip -${family} route add ${to} via ${stranger} dev lan0`);
    const nodad = family === 6 ? " nodad" : "";
    run(machines.seed.enter, `ip addr add ${mappedSeed} dev eth0${nodad}`);
    run([], `ip -${family} route add ${mappedSeed} via ${ADDRESSES[family].seed} dev xylem0`);
  }
  run(machines.stranger.enter, `ip addr add ${ADDRESSES[4].spoofed}/32 dev eth0`);
  run(machines.stranger.enter, `ip addr add ${ADDRESSES[6].spoofed}/128 dev eth0 nodad`);
  for (const setting of ["all", "lan0"]) run([], `sysctl -qw net.ipv4.conf.${setting}.rp_filter=0`);
}

/** Listens in a machine, maybe at one address of it, and echoes; `next` gives the source address of the next datagram. */
async function listener(
  where: Place,
  family: 4 | 6,
  address?: string,
): Promise<{ next(): Promise<string>; stop(): void }> {
  const script = `
    const socket = require("node:dgram").createSocket("udp${family}");
    socket.on("message", (text, from) => {
      console.log(from.address);
      socket.send(text, from.port, from.address);
    });
    socket.bind(${PORT}, ${JSON.stringify(address)}, () => console.log("ready"));
    process.stdin.resume().on("end", () => process.exit(0));`;
  const [command, ...args] = [...where.enter, process.execPath, "--eval", script];
  const child = spawn(command ?? "", args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const next = nextLine(lines);
  if ((await next()) !== "ready") throw new Error("the listener did not start");
  return { next, stop: () => child.stdin.end() };
}

function nextLine(lines: Interface): () => Promise<string> {
  const iterator = lines[Symbol.asyncIterator]();
  return async () => {
    const line = await Promise.race([iterator.next(), wait(WAIT_MS, null, { ref: false })]);
    return line === null ? `nothing within ${WAIT_MS} ms` : String(line.value);
  };
}

function talk(options: {
  enter: readonly string[];
  to: string;
  from: string | null;
  waits: boolean;
}): string {
  const { enter, to, from, waits } = options;
  const script = `
    const socket = require("node:dgram").createSocket(${to.includes(":") ? '"udp6"' : '"udp4"'});
    const end = (text) => { console.log(text); process.exit(0); };
    socket.on("error", (e) => end(e.message));
    socket.on("message", (text, { address }) =>
      end(address === ${JSON.stringify(to)} ? String(text) : \`an answer from \${address}\`));
    socket.bind({ address: ${JSON.stringify(from)} ?? undefined }, () =>
      socket.send("hello", ${PORT}, ${JSON.stringify(to)}, () => ${waits} || end("sent")));
    setTimeout(end, ${WAIT_MS}, "no answer");`;
  const [command, ...args] = [...enter, process.execPath, "--eval", script];
  return execFileSync(command ?? "", args, { encoding: "utf8" }).trim();
}

function run(enter: readonly string[], line: string): string {
  const [command, ...args] = [...enter, ...line.split(" ")];
  return execFileSync(command ?? "", args, { encoding: "utf8" });
}
