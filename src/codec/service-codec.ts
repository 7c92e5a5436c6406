/** The agents' core/v1 `Service`: where its load balancer is reached. */

import { parsePort } from "#src/model/endpoint.ts";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import {
  fieldAtIfPresent,
  fieldOf,
  FieldProblem,
  isAbsent,
  itemsOf,
  reading,
  take,
  type Field,
} from "./fields.ts";

/** What the balancer says about itself; both lists are empty until it exists. */
export interface AgentService {
  /** To be used before any host name. */
  readonly addresses: readonly IpAddress[];
  /** Host names in lower case without a last dot. */
  readonly hosts: readonly string[];
  readonly port: number;
}

const INGRESS_MAX = 64;
const PORTS_MAX = 64;
const HOST =
  /^(?=.{1,253}$)[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?)*$/;

/** Reads the Service; the port is the first UDP port's. */
export const parseAgentService = (object: unknown): Parsed<AgentService> =>
  reading({ kind: "Service", object }, (root) => {
    const ingress = itemsOf(fieldAtIfPresent(root, "status", "loadBalancer", "ingress"), {
      max: INGRESS_MAX,
    });
    const present = (name: string) =>
      ingress
        .map((item) => fieldOf(item, name))
        .filter((field) => !isAbsent(field) && field.value !== "");
    return {
      addresses: [...new Set(present("ip").map((field) => take(field, parseIp)))],
      hosts: [...new Set(present("hostname").map((field) => take(field, parseHost)))],
      port: takeUdpPort(fieldAtIfPresent(root, "spec", "ports")),
    };
  });

const takeUdpPort = (ports: Field): number => {
  const udp = itemsOf(ports, { max: PORTS_MAX }).find(
    (item) => fieldOf(item, "protocol").value === "UDP",
  );
  if (udp === undefined) throw new FieldProblem("spec.ports has no UDP port: add 51820/UDP");
  return take(fieldOf(udp, "port"), parsePort);
};

const parseHost = (value: unknown): Parsed<string> => {
  const host = typeof value === "string" ? value.toLowerCase().replace(/\.$/, "") : "";
  return host.length <= 253 && HOST.test(host)
    ? parsed(host)
    : problem(`${quoted(value)} is not a host name`);
};
