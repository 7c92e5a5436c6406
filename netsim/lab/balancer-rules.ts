/** The nftables text of a UDP load balancer (nft(8): dnat, jhash, numgen, payload statements). */

import type { BalancerMode } from "./topology.ts";

export const balancerTable = "lab-balancer";

/** nft's names of the two families. */
export type Family = "ip" | "ip6";
export const families: readonly Family[] = ["ip", "ip6"];

/** An address of each family that there is. */
export type Addresses = Readonly<Partial<Record<Family, string>>>;

export interface BalancerState {
  readonly mode: BalancerMode;
  /** The interface that carries the public addresses. */
  readonly outside: string;
  readonly addresses: Addresses;
  readonly port: number;
  readonly targetPort: number;
  /** All targets by name: each keeps its counters whether it serves or not. */
  readonly targets: Readonly<Record<string, Addresses>>;
  /** Names of the targets that get packets. */
  readonly serving: readonly string[];
  /** Another seed spreads the flows anew. */
  readonly hashSeed: number;
}

/**
 * Returns one transaction that makes the kernel balance as the state says. Counters live through it.
 *
 * Per flow, conntrack holds a flow's target. In the other modes addresses and ports are rewritten before conntrack
 * (priority below -200), and sources after the route is chosen (before, the balancer's own address would be a martian
 * source), so that nothing is remembered, and not even an answer on its way is lost when a target changes.
 */
export const balancerRules = (state: BalancerState): string =>
  families
    .flatMap((family) => viewOf(state, family) ?? [])
    .map(familyRules)
    .join("");

/** The state as one family sees it. */
interface View extends Omit<BalancerState, "addresses" | "targets"> {
  readonly family: Family;
  readonly address: string;
  readonly targets: Readonly<Record<string, string>>;
}

/** Null: the balancer has no address of this family. */
const viewOf = (state: BalancerState, family: Family): View | null => {
  const { addresses, targets, ...rest } = state;
  const address = addresses[family];
  if (address === undefined) return null;
  const own = Object.entries(targets).flatMap(([name, each]) => {
    const target = each[family];
    return target === undefined ? [] : [[name, target] as const];
  });
  return { ...rest, family, address, targets: Object.fromEntries(own) };
};

const familyRules = (view: View): string => {
  const isStateless = view.mode !== "per-flow";
  const table = `${view.family} ${balancerTable}`;
  const names = Object.keys(view.targets);
  const counters = [
    ...names.flatMap((name) => [`${name}_in`, `${name}_out`]),
    "stale",
    "no_target",
  ];
  return `add table ${table}
${counters.map((name) => `add counter ${table} ${name}`).join("\n")}
flush table ${table}
table ${table} {
  chain raw {
    type filter hook prerouting priority -350;
${indent([...countedOut(view), ...(isStateless ? rewritten(view) : [])])}
  }
  chain pick {
    type nat hook prerouting priority -100;
${indent(isStateless ? [] : perFlow(view))}
  }
  chain late {
    type filter hook postrouting priority 300;
${indent(isStateless ? publicSource(view) : [])}
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
${indent([...countedIn(view), ...(isStateless ? [] : onlyKnownReplies(view))])}
  }
}
`;
};

const indent = (rules: readonly string[]): string => rules.map((rule) => `    ${rule}`).join("\n");

const toPublic = ({ outside, family, address, port }: View): string =>
  `iifname "${outside}" ${family} daddr ${address} udp dport ${port}`;

const fromTarget = ({ outside, family, targetPort }: View, address: string): string =>
  `iifname != "${outside}" ${family} saddr ${address} udp sport ${targetPort}`;

const countedOut = (view: View): string[] =>
  Object.entries(view.targets).map(
    ([name, address]) => `${fromTarget(view, address)} counter name ${name}_out`,
  );

const countedIn = ({ outside, family, targetPort, targets }: View): string[] =>
  Object.entries(targets).map(
    ([name, address]) =>
      `iifname "${outside}" ${family} daddr ${address} udp dport ${targetPort} counter name ${name}_in`,
  );

const servingAddresses = (view: View): string[] =>
  view.serving.flatMap((name) => view.targets[name] ?? []);

const rewritten = (view: View): string[] => {
  const serving = servingAddresses(view);
  const untracked = Object.values(view.targets).map(
    (address) => `${fromTarget(view, address)} notrack accept`,
  );
  if (serving.length === 0) return [...untracked, `${toPublic(view)} counter name no_target drop`];
  const map = serving.map((address, index) => `${index} : ${address}`).join(", ");
  return [
    ...untracked,
    `${toPublic(view)} notrack udp dport set ${view.targetPort} ` +
      `${view.family} daddr set ${choice(view, serving.length)} map { ${map} }`,
  ];
};

/** The number of a target: by chance for each packet, or the same for all packets of a 5-tuple. */
const choice = ({ mode, family, hashSeed }: View, targets: number): string =>
  mode === "per-packet"
    ? `numgen random mod ${targets}`
    : `jhash ${family} saddr . udp sport mod ${targets} seed ${hashSeed}`;

const publicSource = ({ outside, family, targetPort, port, address, targets }: View): string[] =>
  Object.values(targets).map(
    (target) =>
      `oifname "${outside}" ${family} saddr ${target} udp sport ${targetPort} ` +
      `udp sport set ${port} ${family} saddr set ${address}`,
  );

const perFlow = (view: View): string[] => {
  const serving = servingAddresses(view);
  if (serving.length === 0) return [`${toPublic(view)} counter name no_target drop`];
  const map = serving
    .map((address, index) => `${index} : ${address} . ${view.targetPort}`)
    .join(", ");
  return [
    `${toPublic(view)} dnat ${view.family} to ${choice(view, serving.length)} map { ${map} }`,
  ];
};

/** An answer to a flow that the balancer has forgotten would leave with a private source: a real one drops it. */
const onlyKnownReplies = (view: View): string[] =>
  Object.values(view.targets).flatMap((address) => [
    `${fromTarget(view, address)} ct status dnat accept`,
    `${fromTarget(view, address)} counter name stale drop`,
  ]);
