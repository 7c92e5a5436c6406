/** Turns a topology into namespaces, bridges, veth pairs, addresses and routes (ip(8)). */

import { enterNamespace } from "./namespace.ts";
import { natRules } from "./nat.ts";
import { runCommand } from "./process.ts";
import type { InterfaceSpec, MachineSpec, RouteSpec, Topology } from "./topology.ts";

/** The machine name of the namespace that holds all bridges. */
export const switchMachine = "switch";
/** First routing table for routes with a condition. */
const conditionalTableFirst = 100;

/** The name of a machine's namespace. */
export const namespaceName = (lab: string, machine: string): string => `xy-${lab}-${machine}`;

/** The names of all namespaces that a topology makes. */
export const namespaceNames = (topology: Topology): string[] =>
  [switchMachine, ...Object.keys(topology.machines)].map((machine) =>
    namespaceName(topology.name, machine),
  );

/** One cable: a machine's interface and the switch's end of it. */
export interface Port {
  readonly machine: string;
  readonly interface: string;
  /** The name of the switch's end, in the switch's namespace. */
  readonly port: string;
  readonly spec: InterfaceSpec;
}

/** All cables of a topology; interface names are short, so the switch's ends are numbered. */
export const portsOf = (topology: Topology): Port[] =>
  Object.entries(topology.machines)
    .flatMap(([machine, { interfaces }]) =>
      Object.entries(interfaces).map(([name, spec]) => ({ machine, interface: name, spec })),
    )
    .map((each, index) => ({ ...each, port: `p${index}` }));

/** Makes everything that the topology draws; the names of the namespaces must be free. */
export const wire = async (topology: Topology): Promise<void> => {
  const [first, ...others] = namespaceNames(topology);
  // The first one alone: iproute2 makes its folder a mount point on first use.
  if (first !== undefined) await runCommand(["ip", "netns", "add", first]);
  await Promise.all(others.map((name) => runCommand(["ip", "netns", "add", name])));
  await wireSwitch(topology);
  await Promise.all(
    Object.entries(topology.machines).map(([machine, spec]) =>
      wireMachine(namespaceName(topology.name, machine), spec),
    ),
  );
};

const wireSwitch = async (topology: Topology): Promise<void> => {
  const name = namespaceName(topology.name, switchMachine);
  // The bridges switch: no packet filter of any machine is asked on the way.
  await setSysctls(name, {
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.bridge.bridge-nf-call-iptables": "0",
    "net.bridge.bridge-nf-call-ip6tables": "0",
  });
  const bridges = new Map(
    Object.keys(topology.networks).map((network, index) => [network, `b${index}`]),
  );
  const ports = portsOf(topology);
  const lines = [...bridges].flatMap(([network, bridge]) => [
    `link add ${bridge} type bridge mcast_snooping 0`,
    `link set ${bridge} alias ${network} up`,
  ]);
  for (const { machine, interface: inside, port, spec } of ports) {
    const mtu = topology.networks[spec.network]?.mtu;
    const size = mtu === undefined ? "" : ` mtu ${mtu}`;
    const peer = `peer name ${inside}${size} netns ${namespaceName(topology.name, machine)}`;
    lines.push(
      `link add ${port}${size} type veth ${peer}`,
      `link set ${port} alias ${machine}:${inside} master ${bridges.get(spec.network) ?? ""} up`,
    );
  }
  await runCommand(["ip", "-n", name, "-batch", "-"], { input: `${lines.join("\n")}\n` });
  await applyRules(name, wireRules(ports));
  for (const { port, spec } of ports) {
    if (spec.delayMs !== undefined) await delayPort(name, port, spec.delayMs);
  }
};

/**
 * The set holds the cables that are cut, and each cable has a chain for its loss: a rule of the switch and not netem,
 * which many kernels lack.
 */
const wireRules = (ports: readonly Port[]): string => {
  const chains = ports.map(
    ({ port, spec }) => `  chain loss_${port} { ${lossRule(spec.lossPercent ?? 0)} }`,
  );
  const jumps = ports.map(({ port }) => `"${port}" : jump loss_${port}`);
  return `table ${wireTable} {
  set cut { type ifname; }
${chains.join("\n")}
  chain forward {
    type filter hook forward priority 0;
    iifname @cut counter drop
    oifname @cut counter drop
    oifname vmap { ${jumps.join(", ")} }
  }
}
`;
};

/** The switch's table of cut and lossy cables. */
export const wireTable = "bridge lab-wire";

/** The rule that loses a share of what passes, in percent with two decimals; empty for none. */
export const lossRule = (lossPercent: number): string =>
  lossPercent <= 0
    ? ""
    : `numgen random mod 10000 < ${Math.round(lossPercent * 100)} counter drop;`;

const delayPort = async (name: string, port: string, delayMs: number): Promise<void> => {
  const argv = [
    "tc",
    "-n",
    name,
    "qdisc",
    "add",
    "dev",
    port,
    "root",
    "netem",
    "delay",
    `${delayMs}ms`,
  ];
  const { code, stderr } = await runCommand(argv, { check: false });
  if (code !== 0) {
    throw new Error(
      `This kernel can't delay packets (${stderr.trim()}): it needs sch_netem, or leave delayMs out.`,
    );
  }
};

const isBlackHole = (route: RouteSpec): boolean => route.via === "black hole";

const wireMachine = async (name: string, spec: MachineSpec): Promise<void> => {
  await setSysctls(name, { ...baseSysctls(spec), ...spec.sysctls });
  const lines = ["link set lo up"];
  for (const [inside, { addresses }] of Object.entries(spec.interfaces)) {
    for (const address of addresses)
      lines.push(`addr add ${address} dev ${inside}${isIpv6(address) ? " nodad" : ""}`);
    lines.push(`link set ${inside} up`);
  }
  const conditional = (spec.routes ?? []).filter((route) => route.udpSourcePort !== undefined);
  for (const route of spec.routes ?? []) {
    if (isBlackHole(route)) lines.push(`route add blackhole ${route.to}`);
    else if (route.udpSourcePort === undefined)
      lines.push(`route add ${route.to} via ${route.via}`);
  }
  conditional.forEach((route, index) => {
    lines.push(`route add ${route.to} via ${route.via} table ${conditionalTableFirst + index}`);
  });
  await runCommand(["ip", "-n", name, "-batch", "-"], { input: `${lines.join("\n")}\n` });
  for (const [index, route] of conditional.entries())
    await addRule(name, route, conditionalTableFirst + index);
  if (spec.nat !== undefined) {
    await applyRules(name, natRules(spec.nat));
    const seconds = spec.nat.udpTimeoutSeconds;
    if (seconds !== undefined) {
      await setSysctls(name, {
        "net.netfilter.nf_conntrack_udp_timeout": `${seconds}`,
        "net.netfilter.nf_conntrack_udp_timeout_stream": `${seconds}`,
      });
    }
  }
};

const baseSysctls = (spec: MachineSpec): Record<string, string> => {
  const forwarding = spec.isRouter === true ? "1" : "0";
  return {
    "net.ipv4.ip_forward": forwarding,
    "net.ipv6.conf.all.forwarding": forwarding,
    "net.ipv6.conf.default.accept_ra": "0",
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.conf.all.send_redirects": "0",
    "net.ipv4.conf.default.send_redirects": "0",
    "net.ipv4.conf.all.accept_redirects": "0",
    "net.ipv4.conf.default.accept_redirects": "0",
  };
};

const addRule = async (name: string, route: RouteSpec, table: number): Promise<void> => {
  const family = isIpv6(route.via) ? "-6" : "-4";
  const match = ["ipproto", "udp", "sport", `${route.udpSourcePort ?? 0}`];
  await runCommand(["ip", "-n", name, family, "rule", "add", ...match, "lookup", `${table}`]);
};

const setSysctls = async (
  name: string,
  values: Readonly<Record<string, string>>,
): Promise<void> => {
  const assignments = Object.entries(values).map(([key, value]) => `${key}=${value}`);
  await runCommand([...enterNamespace(name), "sysctl", "-qw", ...assignments]);
};

const applyRules = async (name: string, rules: string): Promise<void> => {
  await runCommand([...enterNamespace(name), "nft", "-f", "-"], { input: rules });
};

const isIpv6 = (address: string): boolean => address.includes(":");
