/** `ClusterNetworkPolicy` of policy.networking.k8s.io/v1alpha2: from the object to the model; domain names are not understood. */

import { parsePort } from "#src/model/endpoint.ts";
import { type Parsed } from "#src/model/parsed.ts";
import {
  ANY_LABELS,
  POLICY_PROTOCOLS,
  type ClusterNetworkPolicy,
  type ClusterPolicyPeer,
  type ClusterPolicyPort,
  type ClusterPolicyRule,
} from "#src/model/policy.ts";
import {
  fieldOf,
  FieldProblem,
  isAbsent,
  itemsOf,
  parseName,
  parseWhole,
  reading,
  take,
  takeAll,
  takeOr,
  type Field,
} from "./fields.ts";
import {
  parseOneOf,
  parsePolicyBlock,
  parsePortName,
  parseText,
  refuseUnknownFields,
  takeSelector,
} from "./policy-fields.ts";

/** Bounds of the API's schema. */
const RULES_MAX = 25;
const PEERS_MAX = 25;
const PRIORITY_MAX = 1000;

/** Reads a ClusterNetworkPolicy; the problem names object, field, value and fix. */
export const parseClusterNetworkPolicy = (object: unknown): Parsed<ClusterNetworkPolicy> =>
  reading({ kind: "ClusterNetworkPolicy", object }, (root) => {
    const spec = fieldOf(root, "spec");
    refuseUnknownFields(spec, ["tier", "priority", "subject", "ingress", "egress"]);
    return {
      name: take(fieldOf(fieldOf(root, "metadata"), "name"), parseName),
      tier: take(fieldOf(spec, "tier"), parseOneOf(["Admin", "Baseline"])),
      priority: take(fieldOf(spec, "priority"), parseWhole({ min: 0, max: PRIORITY_MAX })),
      subject: takeSubject(fieldOf(spec, "subject")),
      ingress: takeRules(fieldOf(spec, "ingress"), "from"),
      egress: takeRules(fieldOf(spec, "egress"), "to"),
    };
  });

/** The one field of an object that has exactly one. */
const onlyField = (field: Field): Field => {
  const { value } = field;
  const names =
    typeof value === "object" && value !== null && !Array.isArray(value) ? Object.keys(value) : [];
  const [name] = names;
  if (name === undefined || names.length !== 1) {
    throw new FieldProblem(`${field.path} must be an object with exactly one field`);
  }
  return { ...fieldOf(field, name), path: `${field.path}.${name}` };
};

const nameOf = ({ path }: Field): string => path.slice(path.lastIndexOf(".") + 1);

const takeSubject = (field: Field): ClusterNetworkPolicy["subject"] => {
  const only = onlyField(field);
  const pods = takePodsPeer(only);
  if (pods !== null) return { namespaces: pods.namespaces, pods: pods.pods };
  throw new FieldProblem(`${only.path} is not known: write namespaces or pods`);
};

/** Null: the field is not about pods. */
const takePodsPeer = (only: Field): Extract<ClusterPolicyPeer, { kind: "pods" }> | null => {
  const name = nameOf(only);
  if (name === "namespaces") {
    return { kind: "pods", namespaces: takeSelector(only), pods: ANY_LABELS };
  }
  if (name !== "pods") return null;
  refuseUnknownFields(only, ["namespaceSelector", "podSelector"]);
  const namespaces = fieldOf(only, "namespaceSelector");
  return {
    kind: "pods",
    namespaces: isAbsent(namespaces) ? ANY_LABELS : takeSelector(namespaces),
    pods: takeSelector(fieldOf(only, "podSelector")),
  };
};

const takeRules = (field: Field, peers: "from" | "to"): ClusterPolicyRule[] =>
  itemsOf(field, { max: RULES_MAX }).map((rule) => {
    refuseUnknownFields(rule, ["name", "action", peers, "protocols"]);
    const list = fieldOf(rule, peers);
    const items = itemsOf(list, { max: PEERS_MAX });
    if (items.length === 0) throw new FieldProblem(`${list.path} must hold at least one peer`);
    return {
      name: takeOr({ field: fieldOf(rule, "name"), parse: parseText, standard: "" }),
      action: take(fieldOf(rule, "action"), parseOneOf(["Accept", "Deny", "Pass"])),
      peers: items.map((item) => takePeer(item, peers)),
      ports: takePorts(fieldOf(rule, "protocols")),
    };
  });

/** Nodes and networks are peers of egress only; what is not known is kept as unknown and fails closed. */
const takePeer = (field: Field, peers: "from" | "to"): ClusterPolicyPeer => {
  const only = onlyField(field);
  const pods = takePodsPeer(only);
  if (pods !== null) return pods;
  const name = nameOf(only);
  if (peers === "to" && name === "nodes") return { kind: "nodes", nodes: takeSelector(only) };
  if (peers === "to" && name === "networks") {
    return {
      kind: "networks",
      cidrs: takeAll(only, { max: PEERS_MAX, parse: parsePolicyBlock }),
    };
  }
  return { kind: "unknown", field: name };
};

/** An absent list is every port; an empty one is refused, as the API does. */
const takePorts = (field: Field): ClusterPolicyPort[] => {
  if (isAbsent(field)) return [];
  const items = itemsOf(field, { max: PEERS_MAX });
  if (items.length === 0) {
    throw new FieldProblem(`${field.path} is empty: name a protocol, or leave the field out`);
  }
  return items.map(takePort);
};

const takePort = (field: Field): ClusterPolicyPort => {
  const only = onlyField(field);
  const name = nameOf(only);
  if (name === "destinationNamedPort") return { kind: "named", name: take(only, parsePortName) };
  const protocol = POLICY_PROTOCOLS.find((known) => known.toLowerCase() === name);
  if (protocol === undefined) {
    throw new FieldProblem(
      `${only.path} is not known: write tcp, udp, sctp or destinationNamedPort`,
    );
  }
  refuseUnknownFields(only, ["destinationPort"]);
  const port = onlyField(fieldOf(only, "destinationPort"));
  if (nameOf(port) === "number") {
    const number = take(port, parsePort);
    return { kind: "range", protocol, from: number, to: number };
  }
  if (nameOf(port) !== "range") {
    throw new FieldProblem(`${port.path} is not known: write number or range`);
  }
  refuseUnknownFields(port, ["start", "end"]);
  const from = take(fieldOf(port, "start"), parsePort);
  const to = take(fieldOf(port, "end"), parsePort);
  if (from >= to) throw new FieldProblem(`${port.path}.end ${to} must be above start ${from}`);
  return { kind: "range", protocol, from, to };
};
