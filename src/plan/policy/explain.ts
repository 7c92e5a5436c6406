/** Answers "may FROM reach TO on PORT?" for pods, labels and blocks of addresses, with the policy and rule that says so. */

import { hostCidr, type Cidr } from "#src/model/cidr.ts";
import { familyOf, type IpAddress } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import type {
  Flow,
  FlowEnd,
  LabelSelector,
  PolicyPod,
  PolicyProtocol,
  PolicyService,
  PolicyWorld,
} from "#src/model/policy.ts";
import { addressAtoms, boundaryBlocks } from "./address-atoms.ts";
import { judgeOf } from "./judge.ts";
import { isSelected } from "./selector.ts";
import type { FlowVerdict } from "./verdict.ts";

/** Whom a question is about. */
export type PartyQuery =
  | { readonly kind: "pod"; readonly namespace: string; readonly name: string }
  | { readonly kind: "labels"; readonly namespace: string; readonly labels: LabelSelector }
  | { readonly kind: "block"; readonly cidr: Cidr };

export interface FlowQuery {
  readonly from: PartyQuery;
  readonly to: PartyQuery;
  /** A number, or the name of a port of the destination's containers. */
  readonly port: number | string;
  readonly protocol: PolicyProtocol;
}

export interface ExplainedFlow extends FlowVerdict {
  readonly from: string;
  readonly to: string;
  readonly port: number;
  readonly protocol: PolicyProtocol;
}

export interface Explanation {
  /** `mixed`: allowed for a part of those asked about. */
  readonly verdict: "allowed" | "denied" | "mixed";
  readonly flows: readonly ExplainedFlow[];
}

/** An end with the text that people know it by. */
interface NamedEnd {
  readonly end: FlowEnd;
  readonly text: string;
}

/** The most flows one answer holds. */
const FLOWS_MAX = 10_000;

/** Judges every flow that a question stands for. The problem is a sentence for the one who asked. */
export const explain = (world: PolicyWorld, query: FlowQuery): Parsed<Explanation> => {
  const boundaries = boundaryBlocks(world);
  const service = serviceOf(world, query.to);
  if (service !== null) return explainService(world, { query, service });
  const from = endsOf(world, { party: query.from, role: "FROM", boundaries });
  if (!from.ok) return from;
  const to = endsOf(world, { party: query.to, role: "TO", boundaries });
  if (!to.ok) return to;
  if (from.value.length * to.value.length > FLOWS_MAX) {
    return problem(
      `the question is about ${from.value.length} senders and ${to.value.length} receivers: at most ${FLOWS_MAX} pairs are judged, ask for fewer`,
    );
  }
  return judgePairs(world, { query, from: from.value, to: to.value });
};

const judgePairs = (
  world: PolicyWorld,
  options: {
    readonly query: FlowQuery;
    readonly from: readonly NamedEnd[];
    readonly to: readonly NamedEnd[];
  },
): Parsed<Explanation> => {
  const { query, from, to } = options;
  const judge = judgeOf(world);
  const flows: ExplainedFlow[] = [];
  for (const receiver of to) {
    const port = portNumber(query, receiver.end);
    if (!port.ok) return port;
    for (const sender of from) {
      if (!haveOneFamily(sender.end.address, receiver.end.address)) continue;
      const { protocol } = query;
      const flow: Flow = { from: sender.end, to: receiver.end, protocol, port: port.value };
      const names = { from: sender.text, to: receiver.text };
      flows.push({ ...names, port: port.value, protocol, ...judge(flow) });
    }
  }
  if (flows.length === 0) {
    return problem("FROM and TO have no address family in common: one is IPv4, the other IPv6");
  }
  const allowed = flows.filter(({ isAllowed }) => isAllowed).length;
  const verdict = allowed === flows.length ? "allowed" : allowed === 0 ? "denied" : "mixed";
  return parsed({ verdict, flows });
};

/** Unknown addresses are of any family. */
const haveOneFamily = (a: IpAddress | null, b: IpAddress | null): boolean =>
  a === null || b === null || familyOf(a) === familyOf(b);

const portNumber = ({ port, protocol }: FlowQuery, end: FlowEnd): Parsed<number> => {
  if (typeof port === "number") return parsed(port);
  if (end.kind === "address") {
    return problem(`port "${port}" is a name, and ${end.address} is no pod: give its number`);
  }
  const found = end.pod.ports.find((known) => known.name === port && known.protocol === protocol);
  return found === undefined
    ? problem(
        `no container of pod ${podText(end.pod)} has a ${protocol} port "${port}": give its number`,
      )
    : parsed(found.port);
};

const podText = ({ namespace, name }: PolicyPod): string => `${namespace}/${name}`;

const endsOf = (
  world: PolicyWorld,
  options: {
    readonly party: PartyQuery;
    readonly role: "FROM" | "TO";
    readonly boundaries: readonly Cidr[];
  },
): Parsed<readonly NamedEnd[]> => {
  const { party, role, boundaries } = options;
  switch (party.kind) {
    case "pod": {
      const pods = world.pods.filter(
        ({ namespace, name }) => namespace === party.namespace && name === party.name,
      );
      return pods.length === 0
        ? problem(
            `${role} ${party.namespace}/${party.name}: there is no such pod${hint(world, party.namespace)}`,
          )
        : parsed(pods.flatMap(podEnds));
    }
    case "labels": {
      const pods = world.pods.filter(
        ({ namespace, labels }) =>
          namespace === party.namespace && isSelected(party.labels, labels),
      );
      return pods.length === 0
        ? problem(
            `${role}: no pod in namespace ${party.namespace} has the labels asked for${hint(world, party.namespace)}`,
          )
        : parsed(pods.flatMap(podEnds));
    }
    case "block":
      return parsed(
        addressAtoms(party.cidr, boundaries).map(({ address, text }) =>
          addressEnd(world, { address, text }),
        ),
      );
  }
};

/** What a namespace holds, for somebody who asked for something else. */
const hint = (world: PolicyWorld, namespace: string): string => {
  const names = world.pods.filter((pod) => pod.namespace === namespace).map(({ name }) => name);
  if (names.length === 0) return `; no pods of namespace ${namespace} are known`;
  const more = names.length > 5 ? ` and ${names.length - 5} more` : "";
  return `; known there: ${names.slice(0, 5).join(", ")}${more}`;
};

/** A pod has one end for each family it has an address of. */
const podEnds = (pod: PolicyPod): NamedEnd[] => {
  const text = podText(pod);
  const [v4, v6] = ([4, 6] as const).map((family) =>
    pod.addresses.find((address) => familyOf(address) === family),
  );
  if (v4 !== undefined && v6 !== undefined) {
    return [v4, v6].map((address) => ({
      end: { kind: "pod", pod, address },
      text: `${text} (${address})`,
    }));
  }
  return [{ end: { kind: "pod", pod, address: v4 ?? v6 ?? null }, text }];
};

/** The pod that has the address, or the bare address. */
const addressEnd = (
  world: PolicyWorld,
  atom: { readonly address: IpAddress; readonly text: string },
): NamedEnd => {
  const { address, text } = atom;
  const pod = world.pods.find((known) => !known.isHostNetwork && known.addresses.includes(address));
  return pod === undefined
    ? { end: { kind: "address", address }, text }
    : { end: { kind: "pod", pod, address }, text: `${podText(pod)} (${address})` };
};

const serviceOf = (world: PolicyWorld, party: PartyQuery): PolicyService | null => {
  if (party.kind !== "block") return null;
  return (
    world.services.find(({ addresses }) =>
      addresses.some((address) => hostCidr(address) === party.cidr),
    ) ?? null
  );
};

/** Policies are applied to the pods behind a Service, after its address was translated. */
const explainService = (
  world: PolicyWorld,
  options: { readonly query: FlowQuery; readonly service: PolicyService },
): Parsed<Explanation> => {
  const { query, service } = options;
  const name = `Service ${service.namespace}/${service.name}`;
  if (service.selector === null) {
    return problem(`${name} has no selector: ask about the addresses of its endpoints`);
  }
  const port = service.ports.find(
    (known) => known.port === query.port && known.protocol === query.protocol,
  );
  if (port === undefined) {
    return problem(`${name} has no port ${query.port}/${query.protocol}`);
  }
  const labels: LabelSelector = { matchLabels: service.selector, matchExpressions: [] };
  const { namespace } = service;
  const answer = explain(world, {
    ...query,
    to: { kind: "labels", namespace, labels },
    port: port.target,
  });
  if (!answer.ok) return problem(`${name}: ${answer.problem}`);
  const note = `policies are applied to the pods behind ${name}, after its address was translated`;
  const flows = answer.value.flows.map((flow) => ({ ...flow, notes: [...flow.notes, note] }));
  return parsed({ ...answer.value, flows });
};
