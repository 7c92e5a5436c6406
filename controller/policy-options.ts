/** The part of the controller's command line about NetworkPolicies: off unless asked for, refused at start when wrong. */

import type { Command } from "commander";
import { parseLabelKey, parseLabelValue } from "#src/codec/policy-fields.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type { Labels } from "#src/model/policy.ts";
import {
  FLOW_ROLES,
  STANDARD_PORTS,
  type FlowPortName,
  type FlowRole,
} from "#src/plan/policy/flows.ts";
import type { PolicyInstallation, RolePods } from "#src/plan/policy/policy-facts.ts";

/** What commander makes of the flags below, and of those of others that policies need. */
export interface PolicyFlags {
  readonly networkPolicies?: boolean;
  readonly policyPods?: readonly string[];
  readonly policyPort?: readonly string[];
  readonly policyClients?: readonly string[];
  readonly seedNetwork?: string | undefined;
  readonly ownNamespace?: string;
  readonly gatewayStatusPort?: number;
}

export interface PolicySettings extends Pick<
  PolicyInstallation,
  "controllerNamespace" | "apiServerClients" | "roles" | "ports"
> {
  /** The SeedNetwork that says where the seed's nodes and pods are. */
  readonly seedNetwork: string;
}

/** Where a shoot's API server may be asked from, unless the installation knows better. */
const EVERYBODY: readonly string[] = ["0.0.0.0/0", "::/0"];
/** Their labels are the injector's, which nothing else may differ from. */
const FIXED_ROLES: readonly FlowRole[] = ["gateway"];
/** Read from the cluster, never told. */
const FOUND_PORTS: readonly FlowPortName[] = ["agent", "seed-api", "tunnel-endpoint"];

/** Adds the flags. */
export const addPolicyOptions = (command: Command): Command =>
  command
    .option(
      "--network-policies",
      "keep the NetworkPolicies of the declared flows in the namespaces of tunnels; needs --seed-network. Without it those that an earlier controller kept are removed",
    )
    .option(
      "--policy-pods <role=labels>",
      `which pods are ${tunables.join(", ")}, e.g. api-server=app=kube-apiserver or dns=kube-system:k8s-app=kube-dns ("*:" for all namespaces); "none": there are none; repeat for more`,
      collect,
    )
    .option(
      "--policy-port <name=port>",
      "a port of pods that is not the standard one, e.g. api-server=6443; repeat for more",
      collect,
    )
    .option(
      "--policy-clients <cidr>",
      "from where agents, kubelets and people reach shoots' API servers; repeat for more (default: everywhere)",
      collect,
    );

const tunables = FLOW_ROLES.filter((role) => !FIXED_ROLES.includes(role));

const collect = (text: string, before: readonly string[] | undefined): readonly string[] => [
  ...(before ?? []),
  text,
];

/** Reads the flags; null: no policies are kept. */
export const readPolicyOptions = (
  flags: PolicyFlags,
  env: Readonly<Record<string, string | undefined>>,
): Parsed<PolicySettings | null> => {
  const { policyPods = [], policyPort = [], policyClients = EVERYBODY } = flags;
  if (flags.networkPolicies !== true) return parsed(null);
  if (flags.seedNetwork === undefined) {
    return problem(
      "--network-policies needs --seed-network, the SeedNetwork that says where the seed's nodes and pods are",
    );
  }
  const controllerNamespace = flags.ownNamespace ?? env["POD_NAMESPACE"];
  if (controllerNamespace === undefined) {
    return problem(
      "own namespace: policies name the controller's pods, so say where it runs: --own-namespace or POD_NAMESPACE",
    );
  }
  const roles = readAll(policyPods, readRole);
  if (!roles.ok) return roles;
  const ports = readAll(policyPort, readPort);
  if (!ports.ok) return ports;
  const clients = readAll(policyClients, readClients);
  if (!clients.ok) return clients;
  const statusPort = flags.gatewayStatusPort;
  return parsed({
    seedNetwork: flags.seedNetwork,
    controllerNamespace,
    apiServerClients: clients.value,
    roles: Object.fromEntries(roles.value),
    ports: {
      ...(statusPort === undefined ? {} : { "gateway-status": statusPort }),
      ...Object.fromEntries(ports.value),
    },
  });
};

const readAll = <T>(
  texts: readonly string[],
  read: (text: string) => Parsed<T>,
): Parsed<readonly T[]> => {
  const values: T[] = [];
  for (const text of texts) {
    const one = read(text);
    if (!one.ok) return one;
    values.push(one.value);
  }
  return parsed(values);
};

const readRole = (text: string): Parsed<readonly [FlowRole, RolePods | null]> => {
  const [name, rest = ""] = splitOnce(text, "=");
  const role = tunables.find((each) => each === name);
  if (role === undefined) {
    return problem(`--policy-pods ${text}: begin with one of ${tunables.join(", ")} and "="`);
  }
  if (rest === "none") return parsed([role, null]);
  const [place, labelsText = ""] = rest.includes(":") ? splitOnce(rest, ":") : [null, rest];
  const labels = readLabels(labelsText);
  if (!labels.ok) return problem(`--policy-pods ${text}: ${labels.problem}`);
  if (place === null) return parsed([role, { pods: labels.value }]);
  if (place !== "*" && !/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/u.test(place)) {
    return problem(`--policy-pods ${text}: "${place}" is no namespace; write "*" for all`);
  }
  return parsed([role, { namespace: place === "*" ? null : place, pods: labels.value }]);
};

const readLabels = (text: string): Parsed<Labels> => {
  const labels: Record<string, string> = {};
  for (const pair of text.split(",")) {
    const [keyText, valueText] = splitOnce(pair, "=");
    if (valueText === undefined) return problem(`"${pair}" is no label; write name=value`);
    const key = parseLabelKey(keyText);
    if (!key.ok) return key;
    const value = parseLabelValue(valueText);
    if (!value.ok) return value;
    labels[key.value] = value.value;
  }
  return parsed(labels);
};

const readPort = (text: string): Parsed<readonly [string, number]> => {
  const [name, number = ""] = splitOnce(text, "=");
  const known = Object.keys(STANDARD_PORTS).filter(
    (port) => !FOUND_PORTS.some((found) => found === port),
  );
  if (!known.includes(name)) {
    return problem(`--policy-port ${text}: begin with one of ${known.join(", ")} and "="`);
  }
  const port = Number(number);
  return /^[0-9]{1,5}$/u.test(number) && port >= 1 && port <= 65_535
    ? parsed([name, port])
    : problem(`--policy-port ${text}: a port is a whole number from 1 to 65535`);
};

const readClients = (text: string): Parsed<Cidr> => {
  const cidr = parseCidr(text);
  return cidr.ok ? cidr : problem(`--policy-clients ${text}: ${cidr.problem}`);
};

/** The text before and after the first separator; the second is undefined where there is none. */
const splitOnce = (text: string, separator: string): readonly [string, string | undefined] => {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + separator.length)];
};
