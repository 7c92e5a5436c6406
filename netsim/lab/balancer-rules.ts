/** The nftables text of a UDP load balancer (nft(8): dnat, jhash, numgen, payload statements). */

import type { BalancerMode } from "./topology.ts";

export const balancerTable = "lab-balancer";

export interface BalancerState {
  readonly mode: BalancerMode;
  /** The interface that carries the public address. */
  readonly outside: string;
  readonly address: string;
  readonly port: number;
  readonly targetPort: number;
  /** All targets by name: each keeps its counters whether it serves or not. */
  readonly targets: Readonly<Record<string, string>>;
  /** Names of the targets that get packets. */
  readonly serving: readonly string[];
  /** Another seed spreads the flows anew. */
  readonly hashSeed: number;
}

/**
 * Returns one transaction that makes the kernel balance as the state says. Counters live through it.
 *
 * Per flow, conntrack holds a flow's target. Per packet, addresses and ports are rewritten before conntrack
 * (priority below -200), and sources after the route is chosen (before, the balancer's own address would be a
 * martian source), so that nothing is remembered.
 */
export const balancerRules = (state: BalancerState): string => {
  const names = Object.keys(state.targets);
  const counters = [
    ...names.flatMap((name) => [`${name}_in`, `${name}_out`]),
    "stale",
    "no_target",
  ];
  return `add table ip ${balancerTable}
${counters.map((name) => `add counter ip ${balancerTable} ${name}`).join("\n")}
flush table ip ${balancerTable}
table ip ${balancerTable} {
  chain raw {
    type filter hook prerouting priority -350;
${indent([...countedOut(state), ...(state.mode === "per-packet" ? perPacket(state) : [])])}
  }
  chain pick {
    type nat hook prerouting priority -100;
${indent(state.mode === "per-packet" ? [] : perFlow(state))}
  }
  chain late {
    type filter hook postrouting priority 300;
${indent(state.mode === "per-packet" ? publicSource(state) : [])}
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
${indent([...countedIn(state), ...(state.mode === "per-packet" ? [] : onlyKnownReplies(state))])}
  }
}
`;
};

const indent = (rules: readonly string[]): string => rules.map((rule) => `    ${rule}`).join("\n");

const toPublic = (state: BalancerState): string =>
  `iifname "${state.outside}" ip daddr ${state.address} udp dport ${state.port}`;

const fromTarget = (state: BalancerState, address: string): string =>
  `iifname != "${state.outside}" ip saddr ${address} udp sport ${state.targetPort}`;

const countedOut = (state: BalancerState): string[] =>
  Object.entries(state.targets).map(
    ([name, address]) => `${fromTarget(state, address)} counter name ${name}_out`,
  );

const countedIn = (state: BalancerState): string[] =>
  Object.entries(state.targets).map(
    ([name, address]) =>
      `iifname "${state.outside}" ip daddr ${address} udp dport ${state.targetPort} counter name ${name}_in`,
  );

const servingAddresses = (state: BalancerState): string[] =>
  state.serving.flatMap((name) => state.targets[name] ?? []);

const perPacket = (state: BalancerState): string[] => {
  const serving = servingAddresses(state);
  const untracked = Object.values(state.targets).map(
    (address) => `${fromTarget(state, address)} notrack accept`,
  );
  if (serving.length === 0) return [...untracked, `${toPublic(state)} counter name no_target drop`];
  const map = serving.map((address, index) => `${index} : ${address}`).join(", ");
  return [
    ...untracked,
    `${toPublic(state)} notrack udp dport set ${state.targetPort} ` +
      `ip daddr set numgen random mod ${serving.length} map { ${map} }`,
  ];
};

const publicSource = (state: BalancerState): string[] =>
  Object.values(state.targets).map(
    (address) =>
      `oifname "${state.outside}" ip saddr ${address} udp sport ${state.targetPort} ` +
      `udp sport set ${state.port} ip saddr set ${state.address}`,
  );

const perFlow = (state: BalancerState): string[] => {
  const serving = servingAddresses(state);
  if (serving.length === 0) return [`${toPublic(state)} counter name no_target drop`];
  const map = serving
    .map((address, index) => `${index} : ${address} . ${state.targetPort}`)
    .join(", ");
  const hash = `jhash ip saddr . udp sport mod ${serving.length} seed ${state.hashSeed}`;
  return [`${toPublic(state)} dnat ip to ${hash} map { ${map} }`];
};

/** An answer to a flow that the balancer has forgotten would leave with a private source: a real one drops it. */
const onlyKnownReplies = (state: BalancerState): string[] =>
  Object.values(state.targets).flatMap((address) => [
    `${fromTarget(state, address)} ct status dnat accept`,
    `${fromTarget(state, address)} counter name stale drop`,
  ]);
