/** `NetworkPolicy` of networking.k8s.io/v1: object <-> model, with the API server's defaults and refusals. */

import { containsCidr } from "#src/model/cidr.ts";
import { parsePort } from "#src/model/endpoint.ts";
import { type Parsed } from "#src/model/parsed.ts";
import {
  ANY_LABELS,
  type BlockPeer,
  type LabelSelector,
  type NetworkPolicy,
  type ObservedPolicy,
  type PolicyOwner,
  type PolicyPeer,
  type PolicyPort,
  type PolicyRule,
} from "#src/model/policy.ts";
import {
  fieldOf,
  FieldProblem,
  isAbsent,
  itemsOf,
  parseName,
  parseUid,
  reading,
  take,
  takeAll,
  takeOr,
  type Field,
} from "./fields.ts";
import {
  parseLabelValue,
  parseOneOf,
  parsePolicyBlock,
  parsePortName,
  parseText,
  refuseUnknownFields,
  takeMap,
  takeProtocol,
  takeSelector,
} from "./policy-fields.ts";

const RULES_MAX = 10_000;

/** Reads a NetworkPolicy; an absent namespace is `default`. The problem names object, field, value and fix. */
export const parseNetworkPolicy = (object: unknown): Parsed<NetworkPolicy> =>
  reading({ kind: "NetworkPolicy", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const spec = fieldOf(root, "spec");
    refuseUnknownFields(spec, ["podSelector", "ingress", "egress", "policyTypes"]);
    const types = takeTypes(spec);
    return {
      namespace: takeOr({
        field: fieldOf(metadata, "namespace"),
        parse: parseName,
        standard: "default",
      }),
      name: take(fieldOf(metadata, "name"), parseName),
      labels: takeMap(fieldOf(metadata, "labels"), parseLabelValue),
      annotations: takeMap(fieldOf(metadata, "annotations"), parseText),
      owner: takeOwner(fieldOf(metadata, "ownerReferences")),
      pods: takePodSelector(fieldOf(spec, "podSelector")),
      ingress: types.includes("Ingress") ? takeRules(fieldOf(spec, "ingress"), "from") : null,
      egress: types.includes("Egress") ? takeRules(fieldOf(spec, "egress"), "to") : null,
    };
  });

/** Reads a NetworkPolicy of the API server; one whose spec we do not understand is still known by its name. */
export const parseObservedPolicy = (object: unknown): Parsed<ObservedPolicy> =>
  reading({ kind: "NetworkPolicy", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const policy = parseNetworkPolicy(object);
    return {
      namespace: take(fieldOf(metadata, "namespace"), parseName),
      name: take(fieldOf(metadata, "name"), parseName),
      labels: takeMap(fieldOf(metadata, "labels"), parseLabelValue),
      annotations: takeMap(fieldOf(metadata, "annotations"), parseText),
      uid: take(fieldOf(metadata, "uid"), parseUid),
      resourceVersion: take(fieldOf(metadata, "resourceVersion"), parseText),
      policy: policy.ok ? policy.value : null,
    };
  });

/** Absent means everything to the API server: the field is a struct, not a pointer. */
const takePodSelector = (field: Field): LabelSelector =>
  isAbsent(field) ? ANY_LABELS : takeSelector(field);

/** Without types: ingress always, egress where there is at least one egress rule. */
const takeTypes = (spec: Field): readonly ("Ingress" | "Egress")[] => {
  const types = takeAll(fieldOf(spec, "policyTypes"), {
    max: 2,
    parse: parseOneOf<"Ingress" | "Egress">(["Ingress", "Egress"]),
  });
  if (types.length > 0) return types;
  const hasEgress = itemsOf(fieldOf(spec, "egress"), { max: RULES_MAX }).length > 0;
  return hasEgress ? ["Ingress", "Egress"] : ["Ingress"];
};

/** The first owner; an odd one is none of ours. */
const takeOwner = (field: Field): PolicyOwner | null => {
  const [first] = itemsOf(field, { max: 100 });
  if (first === undefined) return null;
  return {
    apiVersion: take(fieldOf(first, "apiVersion"), parseText),
    kind: take(fieldOf(first, "kind"), parseText),
    name: take(fieldOf(first, "name"), parseText),
    uid: take(fieldOf(first, "uid"), parseUid),
  };
};

const takeRules = (field: Field, peers: "from" | "to"): PolicyRule[] =>
  itemsOf(field, { max: RULES_MAX }).map((rule) => {
    refuseUnknownFields(rule, [peers, "ports"]);
    return {
      peers: itemsOf(fieldOf(rule, peers), { max: RULES_MAX }).map(takePeer),
      ports: itemsOf(fieldOf(rule, "ports"), { max: RULES_MAX }).map(takePort),
    };
  });

const takePeer = (field: Field): PolicyPeer => {
  refuseUnknownFields(field, ["podSelector", "namespaceSelector", "ipBlock"]);
  const [pods, namespaces, block] = (["podSelector", "namespaceSelector", "ipBlock"] as const).map(
    (name) => fieldOf(field, name),
  );
  if (pods === undefined || namespaces === undefined || block === undefined) {
    throw new FieldProblem(`${field.path} has no peer`);
  }
  const hasSelector = !isAbsent(pods) || !isAbsent(namespaces);
  if (isAbsent(block) && !hasSelector) {
    throw new FieldProblem(
      `${field.path} names nobody: set podSelector, namespaceSelector or ipBlock`,
    );
  }
  if (!isAbsent(block)) {
    if (!hasSelector) return takeBlock(block);
    throw new FieldProblem(`${field.path} has an ipBlock and a selector: only one is allowed`);
  }
  return {
    kind: "pods",
    namespaces: isAbsent(namespaces) ? null : takeSelector(namespaces),
    pods: isAbsent(pods) ? ANY_LABELS : takeSelector(pods),
  };
};

const takeBlock = (field: Field): BlockPeer => {
  refuseUnknownFields(field, ["cidr", "except"]);
  const cidr = take(fieldOf(field, "cidr"), parsePolicyBlock);
  const except = itemsOf(fieldOf(field, "except"), { max: RULES_MAX }).map((item) => {
    const inner = take(item, parsePolicyBlock);
    if (inner !== cidr && containsCidr({ outer: cidr, inner })) return inner;
    throw new FieldProblem(`${item.path} ${inner} must be a smaller block inside of ${cidr}`);
  });
  return { kind: "block", cidr, except };
};

const takePort = (field: Field): PolicyPort => {
  refuseUnknownFields(field, ["protocol", "port", "endPort"]);
  const protocol = takeProtocol(fieldOf(field, "protocol"));
  const port = takePortOrName(fieldOf(field, "port"));
  const end = fieldOf(field, "endPort");
  if (isAbsent(end)) return { protocol, port, endPort: null };
  const endPort = take(end, parsePort);
  if (typeof port !== "number") {
    throw new FieldProblem(`${end.path} needs a port that is a number`);
  }
  if (endPort < port) {
    throw new FieldProblem(`${end.path} ${endPort} is below port ${port}: the range is empty`);
  }
  return { protocol, port, endPort };
};

/** Null: absent, which is every port. */
export const takePortOrName = (field: Field): number | string | null => {
  if (isAbsent(field)) return null;
  return typeof field.value === "number" ? take(field, parsePort) : take(field, parsePortName);
};

/** Prints what `parseNetworkPolicy` reads, every default spelled out. */
export const printNetworkPolicy = (policy: NetworkPolicy) => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: {
    namespace: policy.namespace,
    name: policy.name,
    labels: policy.labels,
    annotations: policy.annotations,
    ...(policy.owner === null ? {} : { ownerReferences: [{ ...policy.owner }] }),
  },
  spec: {
    podSelector: printSelector(policy.pods),
    policyTypes: [
      ...(policy.ingress === null ? [] : ["Ingress"]),
      ...(policy.egress === null ? [] : ["Egress"]),
    ],
    ...(policy.ingress === null ? {} : { ingress: policy.ingress.map(printRule("from")) }),
    ...(policy.egress === null ? {} : { egress: policy.egress.map(printRule("to")) }),
  },
});

const printSelector = ({ matchLabels, matchExpressions }: LabelSelector) => ({
  ...(Object.keys(matchLabels).length === 0 ? {} : { matchLabels }),
  ...(matchExpressions.length === 0
    ? {}
    : {
        matchExpressions: matchExpressions.map(({ values, ...rest }) =>
          values.length === 0 ? rest : { ...rest, values },
        ),
      }),
});

const printRule = (peers: "from" | "to") => (rule: PolicyRule) => ({
  ...(rule.peers.length === 0 ? {} : { [peers]: rule.peers.map(printPeer) }),
  ...(rule.ports.length === 0 ? {} : { ports: rule.ports.map(printPort) }),
});

const printPeer = (peer: PolicyPeer) => {
  switch (peer.kind) {
    case "block": {
      const { cidr, except } = peer;
      return { ipBlock: except.length === 0 ? { cidr } : { cidr, except } };
    }
    case "pods": {
      const { namespaces, pods } = peer;
      return {
        ...(namespaces === null ? {} : { namespaceSelector: printSelector(namespaces) }),
        podSelector: printSelector(pods),
      };
    }
  }
};

const printPort = ({ protocol, port, endPort }: PolicyPort) => ({
  protocol,
  ...(port === null ? {} : { port }),
  ...(endPort === null ? {} : { endPort }),
});
