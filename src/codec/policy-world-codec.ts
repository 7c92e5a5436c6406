/** What policies are about, from Kubernetes objects: pods, workloads' pod templates, namespaces, nodes, services. */

import { parsePort } from "#src/model/endpoint.ts";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import { type Parsed } from "#src/model/parsed.ts";
import {
  type PolicyNamespace,
  type PolicyNode,
  type PolicyPod,
  type PolicyPodPort,
  type PolicyService,
  type PolicyWorld,
} from "#src/model/policy.ts";
import { parseClusterNetworkPolicy } from "./cluster-network-policy-codec.ts";
import {
  fieldAtIfPresent,
  fieldOf,
  isAbsent,
  itemsOf,
  parseName,
  reading,
  take,
  takeOr,
  type Field,
} from "./fields.ts";
import { parseNetworkPolicy, takePortOrName } from "./network-policy-codec.ts";
import { parseLabelValue, parseText, takeFlag, takeMap, takeProtocol } from "./policy-fields.ts";

const ADDRESSES_MAX = 100;
const CONTAINERS_MAX = 1000;

/** Where a workload keeps the template of its pods. */
const TEMPLATES: Readonly<Record<string, readonly string[]>> = {
  "apps/Deployment": ["spec", "template"],
  "apps/StatefulSet": ["spec", "template"],
  "apps/DaemonSet": ["spec", "template"],
  "apps/ReplicaSet": ["spec", "template"],
  "batch/Job": ["spec", "template"],
  "batch/CronJob": ["spec", "jobTemplate", "spec", "template"],
};

export type WorldProblem = {
  readonly ok: false;
  /** Place of the bad object in the list. */
  readonly at: number;
  readonly problem: string;
};

type Kept = { -readonly [K in keyof PolicyWorld]: PolicyWorld[K][number][] };

/**
 * Reads all objects whose kinds have a part in verdicts; others are passed over. Workloads count as one pod named after
 * them, unless `withTemplates` is false, as it must be where their pods are there too. Stops at the first bad object.
 */
export const readWorld = (
  objects: readonly unknown[],
  options: { readonly withTemplates: boolean },
): { readonly ok: true; readonly value: PolicyWorld } | WorldProblem => {
  const kept: Kept = {
    namespaces: [],
    nodes: [],
    pods: [],
    services: [],
    policies: [],
    clusterPolicies: [],
  };
  for (const [at, object] of objects.entries()) {
    const kind = kindOf(object);
    const path = TEMPLATES[kind];
    if (path !== undefined && !options.withTemplates) continue;
    const added =
      path === undefined
        ? keep(kept, kind, object)
        : into(kept.pods, parseTemplate({ object, kind, path }));
    if (added !== null && !added.ok) return { ok: false, at, problem: added.problem };
  }
  return { ok: true, value: kept };
};

/** Null: the kind has no part in verdicts. */
const keep = (kept: Kept, kind: string, object: unknown): Parsed<unknown> | null => {
  if (kind === "/Pod") return into(kept.pods, parsePolicyPod(object));
  if (kind === "/Namespace") return into(kept.namespaces, parseNamespace(object));
  if (kind === "/Node") return into(kept.nodes, parseNode(object));
  if (kind === "/Service") return into(kept.services, parseService(object));
  if (kind === "networking.k8s.io/NetworkPolicy") {
    return into(kept.policies, parseNetworkPolicy(object));
  }
  return kind === "policy.networking.k8s.io/ClusterNetworkPolicy"
    ? into(kept.clusterPolicies, parseClusterNetworkPolicy(object))
    : null;
};

const into = <T>(list: T[], item: Parsed<T>): Parsed<T> => {
  if (item.ok) list.push(item.value);
  return item;
};

/** `group/Kind`, whatever the version; "" where the object has none. */
const kindOf = (object: unknown): string => {
  if (typeof object !== "object" || object === null) return "";
  const { apiVersion, kind } = object as { apiVersion?: unknown; kind?: unknown };
  if (typeof apiVersion !== "string" || typeof kind !== "string") return "";
  const slash = apiVersion.indexOf("/");
  return `${slash === -1 ? "" : apiVersion.slice(0, slash)}/${kind}`;
};

/** An absent namespace is `default`, as it is to `kubectl apply`. */
const takeNamespace = (metadata: Field): string =>
  takeOr({ field: fieldOf(metadata, "namespace"), parse: parseName, standard: "default" });

/** Reads a Pod: labels, addresses and named ports. */
export const parsePolicyPod = (object: unknown): Parsed<PolicyPod> =>
  reading({ kind: "Pod", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const status = fieldOf(root, "status");
    const hosts = takeIps(status, { list: "hostIPs", single: "hostIP" });
    return {
      namespace: takeNamespace(metadata),
      name: take(fieldOf(metadata, "name"), parseName),
      isTemplate: false,
      addresses: takeIps(status, { list: "podIPs", single: "podIP" }),
      nodeAddresses: hosts,
      ...takePodSpec({ metadata, spec: fieldOf(root, "spec") }),
    };
  });

const parseTemplate = (options: {
  readonly object: unknown;
  readonly kind: string;
  readonly path: readonly string[];
}): Parsed<PolicyPod> => {
  const { object, kind, path } = options;
  return reading({ kind: kind.slice(kind.indexOf("/") + 1), object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const template = path.reduce(fieldOf, root);
    return {
      namespace: takeNamespace(metadata),
      name: take(fieldOf(metadata, "name"), parseName),
      isTemplate: true,
      addresses: [],
      nodeAddresses: [],
      ...takePodSpec({
        metadata: fieldAtIfPresent(template, "metadata"),
        spec: fieldOf(template, "spec"),
      }),
    };
  });
};

const takePodSpec = (fields: { readonly metadata: Field; readonly spec: Field }) => ({
  labels: takeMap(fieldAtIfPresent(fields.metadata, "labels"), parseLabelValue),
  isHostNetwork: takeFlag(fieldAtIfPresent(fields.spec, "hostNetwork")),
  ports: [
    // A sidecar is an init container, and may have named ports too.
    ...itemsOf(fieldOf(fields.spec, "initContainers"), { max: CONTAINERS_MAX }),
    ...itemsOf(fieldOf(fields.spec, "containers"), { max: CONTAINERS_MAX }),
  ].flatMap(takeNamedPorts),
});

const takeNamedPorts = (container: Field): PolicyPodPort[] =>
  itemsOf(fieldOf(container, "ports"), { max: CONTAINERS_MAX }).flatMap((field) => {
    const name = fieldOf(field, "name");
    if (isAbsent(name)) return [];
    return [
      {
        name: take(name, parseText),
        port: take(fieldOf(field, "containerPort"), parsePort),
        protocol: takeProtocol(fieldOf(field, "protocol")),
      },
    ];
  });

/** `podIPs: [{ip}]`, or the older `podIP`; an absent status has none. */
const takeIps = (
  status: Field,
  names: { readonly list: string; readonly single: string },
): IpAddress[] => {
  if (isAbsent(status)) return [];
  const items = itemsOf(fieldOf(status, names.list), { max: ADDRESSES_MAX });
  if (items.length > 0) return items.map((item) => take(fieldOf(item, "ip"), parseIp));
  const single = fieldOf(status, names.single);
  return isAbsent(single) || single.value === "" ? [] : [take(single, parseIp)];
};

const parseNamespace = (object: unknown): Parsed<PolicyNamespace> =>
  reading({ kind: "Namespace", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    return {
      name: take(fieldOf(metadata, "name"), parseName),
      labels: takeMap(fieldOf(metadata, "labels"), parseLabelValue),
    };
  });

const parseNode = (object: unknown): Parsed<PolicyNode> =>
  reading({ kind: "Node", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const addresses = fieldAtIfPresent(root, "status", "addresses");
    return {
      name: take(fieldOf(metadata, "name"), parseName),
      labels: takeMap(fieldOf(metadata, "labels"), parseLabelValue),
      // Host names and DNS names are in the same list.
      addresses: itemsOf(addresses, { max: ADDRESSES_MAX }).flatMap((item) => {
        const ip = parseIp(fieldOf(item, "address").value);
        return ip.ok ? [ip.value] : [];
      }),
    };
  });

const parseService = (object: unknown): Parsed<PolicyService> =>
  reading({ kind: "Service", object }, (root) => {
    const metadata = fieldOf(root, "metadata");
    const spec = fieldOf(root, "spec");
    const selector = takeMap(fieldOf(spec, "selector"), parseLabelValue);
    return {
      namespace: takeNamespace(metadata),
      name: take(fieldOf(metadata, "name"), parseName),
      addresses: takeClusterIps(spec),
      selector: Object.keys(selector).length === 0 ? null : selector,
      ports: itemsOf(fieldOf(spec, "ports"), { max: CONTAINERS_MAX }).map((field) => {
        const port = take(fieldOf(field, "port"), parsePort);
        const protocol = takeProtocol(fieldOf(field, "protocol"));
        return { port, protocol, target: takePortOrName(fieldOf(field, "targetPort")) ?? port };
      }),
    };
  });

/** "None" and "" are no addresses. */
const takeClusterIps = (spec: Field): IpAddress[] => {
  const list = itemsOf(fieldOf(spec, "clusterIPs"), { max: ADDRESSES_MAX });
  const fields = list.length > 0 ? list : [fieldOf(spec, "clusterIP")];
  return fields.flatMap((field) => {
    const ip = parseIp(field.value);
    return ip.ok ? [ip.value] : [];
  });
};
