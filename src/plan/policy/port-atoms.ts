/** Cuts the port numbers of a protocol into ranges within which no policy can tell one number from another. */

import {
  POLICY_PROTOCOLS,
  type PolicyProtocol,
  type PolicyRule,
  type PolicyWorld,
} from "#src/model/policy.ts";

/** Ends included. */
export interface PortRange {
  readonly protocol: PolicyProtocol;
  readonly from: number;
  readonly to: number;
}

const PORT_MIN = 1;
const PORT_MAX = 65_535;

/** The ranges of all protocols, in order; together they are every port. */
export const portAtoms = (worlds: readonly PolicyWorld[]): PortRange[] => {
  const ranges = worlds.flatMap(rangesOf);
  return POLICY_PROTOCOLS.flatMap((protocol) => {
    const cuts = new Set([PORT_MIN]);
    for (const range of ranges) {
      if (range.protocol !== protocol) continue;
      cuts.add(range.from);
      if (range.to < PORT_MAX) cuts.add(range.to + 1);
    }
    const starts = [...cuts].toSorted((a, b) => a - b);
    return starts.map((from, at) => ({
      protocol,
      from,
      to: (starts[at + 1] ?? PORT_MAX + 1) - 1,
    }));
  });
};

const rangesOf = ({ policies, clusterPolicies, pods }: PolicyWorld): PortRange[] => [
  ...policies
    .flatMap(({ ingress, egress }) => [...(ingress ?? []), ...(egress ?? [])])
    .flatMap(rangesOfRule),
  ...clusterPolicies
    .flatMap(({ ingress, egress }) => [...ingress, ...egress])
    .flatMap(({ ports }) => ports)
    .flatMap((port) => (port.kind === "range" ? [port] : [])),
  // Names of ports stand for these numbers.
  ...pods.flatMap(({ ports }) =>
    ports.map(({ port, protocol }) => ({ protocol, from: port, to: port })),
  ),
];

const rangesOfRule = ({ ports }: PolicyRule): PortRange[] =>
  ports.flatMap(({ protocol, port, endPort }) =>
    typeof port === "number" ? [{ protocol, from: port, to: endPort ?? port }] : [],
  );

/** Joins neighbours, e.g. 1-79 and 80-80 to 1-79... in the order given. */
export const joinRanges = (ranges: readonly PortRange[]): PortRange[] => {
  const joined: PortRange[] = [];
  for (const range of ranges) {
    const last = joined.at(-1);
    if (last !== undefined && last.protocol === range.protocol && last.to + 1 === range.from) {
      joined.splice(-1, 1, { ...last, to: range.to });
    } else {
      joined.push(range);
    }
  }
  return joined;
};

/** E.g. `80/TCP, 1-52/UDP`, `all of UDP`, `all ports`. */
export const rangesText = (ranges: readonly PortRange[]): string => {
  const isWhole = ({ from, to }: PortRange): boolean => from === PORT_MIN && to === PORT_MAX;
  if (ranges.length === POLICY_PROTOCOLS.length && ranges.every(isWhole)) return "all ports";
  return ranges
    .map((range) => {
      if (isWhole(range)) return `all of ${range.protocol}`;
      const { from, to, protocol } = range;
      return `${from === to ? from : `${from}-${to}`}/${protocol}`;
    })
    .join(", ");
};
