/** What a change of policies changes for whom: the flows whose verdict differs between two worlds. */

import type { Cidr } from "#src/model/cidr.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import type { Flow, FlowEnd, PolicyDirection, PolicyPod, PolicyWorld } from "#src/model/policy.ts";
import { isDataEqual } from "./data-equal.ts";
import { judgeOf, type Judge } from "./judge.ts";
import { partyClasses, type PartyClass } from "./party-classes.ts";
import { joinRanges, portAtoms, type PortRange } from "./port-atoms.ts";
import { isSelected, namespaceLabels } from "./selector.ts";
import type { FlowVerdict } from "./verdict.ts";

export interface VerdictChange {
  /** Names of pods that are alike, or one block of addresses; a pod's way to itself is never meant. */
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly ports: readonly PortRange[];
  readonly becomes: "allowed" | "denied";
  /** For the first of the ports. */
  readonly before: FlowVerdict;
  readonly after: FlowVerdict;
}

/** Names of policies whose text differs; cluster policies have no namespace. */
export interface PolicyTextChanges {
  readonly added: readonly string[];
  readonly changed: readonly string[];
  readonly removed: readonly string[];
}

export interface VerdictDiff {
  readonly policies: PolicyTextChanges;
  readonly changes: readonly VerdictChange[];
}

/** About 10 s of work. */
const VERDICTS_MAX = 2_000_000;

/** Compares two worlds for all pods of either and for `everywhere`, the addresses to look at. Says which verdicts differ. */
export const diffVerdicts = (options: {
  readonly have: PolicyWorld;
  readonly want: PolicyWorld;
  readonly everywhere: readonly Cidr[];
}): Parsed<VerdictDiff> => {
  const { have, want, everywhere } = options;
  const classes = partyClasses([have, want], everywhere);
  const ports = portAtoms([have, want]);
  const isAffected = affectedEnds(have, want);
  const pairs = classes.flatMap((from) =>
    classes.flatMap((to) => {
      const pair = pairOf(from, to);
      return pair !== null && (isAffected(pair.from, "egress") || isAffected(pair.to, "ingress"))
        ? [{ ...pair, names: { from: from.members, to: to.members } }]
        : [];
    }),
  );
  if (pairs.length * ports.length > VERDICTS_MAX) {
    return problem(
      `${pairs.length} pairs on ${ports.length} ranges of ports are too many to compare: compare fewer namespaces at a time`,
    );
  }
  const judges = { have: judgeOf(have), want: judgeOf(want) };
  const changes = pairs.flatMap((pair) =>
    changesOf(judges, pair, ports).map((change) => ({ ...pair.names, ...change })),
  );
  return parsed({ policies: textChanges(have, want), changes });
};

interface Pair {
  readonly from: FlowEnd;
  readonly to: FlowEnd;
}

/** Null: nothing to ask, as between two addresses or from a lone pod to itself. */
const pairOf = (from: PartyClass, to: PartyClass): Pair | null => {
  const receiver = from === to ? to.second : to.first;
  if (receiver === null) return null;
  if (from.first.kind === "address" && receiver.kind === "address") return null;
  const [a, b] = [from.first.address, receiver.address];
  const isOneFamily = a === null || b === null || a.includes(":") === b.includes(":");
  return isOneFamily ? { from: from.first, to: receiver } : null;
};

/** A range of ports with a changed verdict. */
interface RangeChange {
  readonly range: PortRange;
  readonly becomes: VerdictChange["becomes"];
  readonly before: FlowVerdict;
  readonly after: FlowVerdict;
}

const changesOf = (
  judges: { readonly have: Judge; readonly want: Judge },
  pair: Pair,
  ports: readonly PortRange[],
): Omit<VerdictChange, "from" | "to">[] => {
  const found: RangeChange[] = [];
  for (const range of ports) {
    const { protocol, from: port } = range;
    const flow: Flow = { from: pair.from, to: pair.to, protocol, port };
    const [before, after] = [judges.have(flow), judges.want(flow)];
    if (before.isAllowed === after.isAllowed) continue;
    found.push({ range, becomes: after.isAllowed ? "allowed" : "denied", before, after });
  }
  return (["denied", "allowed"] as const).flatMap((becomes) => {
    const [first, ...rest] = found.filter((change) => change.becomes === becomes);
    if (first === undefined) return [];
    const ranges = joinRanges([first, ...rest].map(({ range }) => range));
    return [{ ports: ranges, becomes, before: first.before, after: first.after }];
  });
};

/** Which ends a changed policy is about; where namespaces or nodes changed, every pod is. */
const affectedEnds = (
  have: PolicyWorld,
  want: PolicyWorld,
): ((end: FlowEnd, direction: PolicyDirection) => boolean) => {
  const isSameGround =
    isDataEqual(have.namespaces, want.namespaces) && isDataEqual(have.nodes, want.nodes);
  const policies = [
    ...have.policies.filter((one) => !want.policies.some((other) => isDataEqual(one, other))),
    ...want.policies.filter((one) => !have.policies.some((other) => isDataEqual(one, other))),
  ];
  const cluster = [
    ...have.clusterPolicies.filter((a) => !want.clusterPolicies.some((b) => isDataEqual(a, b))),
    ...want.clusterPolicies.filter((a) => !have.clusterPolicies.some((b) => isDataEqual(a, b))),
  ];
  const labelsOf = namespaceLabels(want.namespaces);
  const isPodAffected = ({ namespace, labels }: PolicyPod, direction: PolicyDirection): boolean =>
    !isSameGround ||
    policies.some(
      (policy) =>
        policy.namespace === namespace &&
        policy[direction] !== null &&
        isSelected(policy.pods, labels),
    ) ||
    cluster.some(
      ({ subject }) =>
        isSelected(subject.namespaces, labelsOf(namespace)) && isSelected(subject.pods, labels),
    );
  const known = { ingress: new Map<FlowEnd, boolean>(), egress: new Map<FlowEnd, boolean>() };
  return (end, direction) => {
    if (end.kind === "address") return false;
    const answer = known[direction].get(end) ?? isPodAffected(end.pod, direction);
    known[direction].set(end, answer);
    return answer;
  };
};

const textChanges = (have: PolicyWorld, want: PolicyWorld): PolicyTextChanges => {
  const [before, after] = [named(have), named(want)];
  const names = (from: ReadonlyMap<string, unknown>, isWanted: (name: string) => boolean) =>
    [...from.keys()].filter(isWanted).toSorted();
  return {
    added: names(after, (name) => !before.has(name)),
    changed: names(
      after,
      (name) => before.has(name) && !isDataEqual(before.get(name), after.get(name)),
    ),
    removed: names(before, (name) => !after.has(name)),
  };
};

const named = ({ policies, clusterPolicies }: PolicyWorld): ReadonlyMap<string, unknown> =>
  new Map<string, unknown>([
    ...policies.map((policy) => [`${policy.namespace}/${policy.name}`, policy] as const),
    ...clusterPolicies.map((policy) => [policy.name, policy] as const),
  ]);
