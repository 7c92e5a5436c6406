/** What a lab is made of, as data: networks, machines, routes, NAT and load balancers. */

/** A UDP load balancer's way to choose a target. */
export type BalancerMode =
  /** Each 5-tuple has one target, held in conntrack. */
  | "per-flow"
  /** Each 5-tuple has one target as long as the targets stay; when they change, live flows move. No state at all. */
  | "moving"
  /** Every packet goes to a random target; no state at all. */
  | "per-packet";

/** One layer-2 segment: a bridge in the lab's switch namespace. */
export interface NetworkSpec {
  /** What the drawing says of it; addresses belong to the machines. */
  readonly ranges: readonly string[];
  readonly mtu?: number;
}

export interface InterfaceSpec {
  readonly network: string;
  /** With prefix length: "10.250.1.11/20". */
  readonly addresses: readonly string[];
  /** Share of the packets towards this machine that is lost, in percent. */
  readonly lossPercent?: number;
  /** Delay of packets towards this machine; needs the kernel's netem. */
  readonly delayMs?: number;
}

export interface RouteSpec {
  /** A CIDR or "default"; the family is that of `via`. */
  readonly to: string;
  /** An address, or "black hole": packets vanish without an ICMP error. */
  readonly via: string;
  /** Only for UDP that leaves this port: the way back through a load balancer that keeps client addresses. */
  readonly udpSourcePort?: number;
}

/** A NAT router: masquerades what leaves, drops what nobody inside asked for (RFC 4787: address and port dependent). */
export interface NatSpec {
  /** The interface towards the public side. */
  readonly outside: string;
  /** Default "preserved". With "random" a forgotten mapping comes back with another port. */
  readonly ports?: "preserved" | "random";
  /** Seconds after which an idle UDP mapping is forgotten; default: the kernel's 30, then 120 for a two-way flow. */
  readonly udpTimeoutSeconds?: number;
  readonly forwards?: readonly PortForwardSpec[];
}

export interface PortForwardSpec {
  readonly protocol: "tcp" | "udp";
  readonly address: string;
  readonly port: number;
  readonly toAddress: string;
  readonly toPort: number;
}

export interface MachineSpec {
  readonly interfaces: Readonly<Record<string, InterfaceSpec>>;
  readonly routes?: readonly RouteSpec[];
  /** Whether it forwards between its interfaces; default false. */
  readonly isRouter?: boolean;
  readonly nat?: NatSpec;
  readonly sysctls?: Readonly<Record<string, string>>;
}

export interface BalancerTargetSpec {
  readonly address: string;
  readonly address6?: string;
  readonly machine: string;
}

export interface BalancerSpec {
  /** The machine that is the balancer. */
  readonly machine: string;
  /** The interface that carries the public address. */
  readonly outside: string;
  /** Without prefix length. */
  readonly address: string;
  /** A balancer without one knows no IPv6. */
  readonly address6?: string;
  readonly port: number;
  readonly mode: BalancerMode;
  /** The UDP port on every target. */
  readonly targetPort: number;
  readonly targets: Readonly<Record<string, BalancerTargetSpec>>;
  readonly udpTimeoutSeconds?: number;
}

export interface Topology {
  /** Lower case letters, digits and hyphens, at most 24. */
  readonly name: string;
  readonly networks: Readonly<Record<string, NetworkSpec>>;
  readonly machines: Readonly<Record<string, MachineSpec>>;
  readonly balancers?: Readonly<Record<string, BalancerSpec>>;
}

/** Every name that a topology refers to must exist; the list of what is wrong, empty when all is well. */
export const topologyProblems = (topology: Topology): string[] => {
  const problems: string[] = [];
  if (!/^[a-z0-9][a-z0-9-]{0,23}$/.test(topology.name)) {
    problems.push(
      `The lab's name "${topology.name}" must be 1 to 24 lower case letters, digits or hyphens.`,
    );
  }
  if ("switch" in topology.machines)
    problems.push('No machine can be called "switch": the bridges live there.');
  for (const [machine, spec] of Object.entries(topology.machines)) {
    for (const [name, each] of Object.entries(spec.interfaces)) {
      if (name.length > 15)
        problems.push(`${machine}: the interface name "${name}" is longer than 15 bytes.`);
      if (!(each.network in topology.networks))
        problems.push(`${machine}: there is no network "${each.network}".`);
      for (const address of each.addresses) {
        if (!/\/\d+$/.test(address))
          problems.push(`${machine}: the address ${address} has no prefix length.`);
      }
    }
    if (spec.nat !== undefined && !(spec.nat.outside in spec.interfaces)) {
      problems.push(`${machine}: its NAT is on "${spec.nat.outside}", which it does not have.`);
    }
  }
  for (const [name, spec] of Object.entries(topology.balancers ?? {})) {
    const machine = topology.machines[spec.machine];
    if (machine === undefined)
      problems.push(`Balancer ${name}: there is no machine "${spec.machine}".`);
    else if (!(spec.outside in machine.interfaces))
      problems.push(`Balancer ${name}: no interface "${spec.outside}".`);
    for (const target of Object.values(spec.targets)) {
      if (!(target.machine in topology.machines))
        problems.push(`Balancer ${name}: no machine "${target.machine}".`);
    }
  }
  return problems;
};
