/** What people write on a command line to ask about a flow: `namespace/pod`, `namespace/app=web`, an address, `443/TCP`. */

import { cidrFromParts, hostCidr, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parsePort } from "#src/model/endpoint.ts";
import { parseIp } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import {
  labelsSelector,
  POLICY_PROTOCOLS,
  type LabelSelector,
  type PolicyProtocol,
} from "#src/model/policy.ts";
import { quoted } from "#src/model/quoted.ts";
import { parseName } from "./fields.ts";
import { parseLabelKey, parseLabelValue, parsePortName } from "./policy-fields.ts";

export type PartyText =
  | { readonly kind: "pod"; readonly namespace: string; readonly name: string }
  | { readonly kind: "labels"; readonly namespace: string; readonly labels: LabelSelector }
  | { readonly kind: "block"; readonly cidr: Cidr };

const HOW =
  "write namespace/pod, namespace/label=value[,label=value], an IP address or a CIDR block";

/** Reads FROM or TO. */
export const parseParty = (text: string): Parsed<PartyText> => {
  const ip = parseIp(text);
  if (ip.ok) return parsed({ kind: "block", cidr: hostCidr(ip.value) });
  const slash = text.indexOf("/");
  if (slash === -1) return problem(`${quoted(text)} names nobody: ${HOW}`);
  const [head, tail] = [text.slice(0, slash), text.slice(slash + 1)];
  // No namespace has a dot or a colon in its name.
  if (/[.:]/.test(head)) {
    const cidr = parseCidr(text);
    return cidr.ok ? parsed({ kind: "block", cidr: cidr.value }) : cidr;
  }
  const namespace = parseName(head);
  if (!namespace.ok) return problem(`${quoted(text)}: the namespace ${namespace.problem}; ${HOW}`);
  if (tail.includes("=")) {
    const labels = parseLabels(tail);
    return labels.ok
      ? parsed({ kind: "labels", namespace: namespace.value, labels: labels.value })
      : problem(`${quoted(text)}: ${labels.problem}; ${HOW}`);
  }
  const name = parseName(tail);
  return name.ok
    ? parsed({ kind: "pod", namespace: namespace.value, name: name.value })
    : problem(`${quoted(text)}: the pod ${name.problem}; ${HOW}`);
};

const parseLabels = (text: string): Parsed<LabelSelector> => {
  const labels: Record<string, string> = {};
  for (const term of text.split(",")) {
    const [key = "", value = "", ...more] = term.split("=");
    const readKey = parseLabelKey(key);
    if (!readKey.ok) return readKey;
    const readValue = parseLabelValue(value);
    if (!readValue.ok) return readValue;
    if (more.length > 0) return problem(`${quoted(term)} has more than one '='`);
    labels[key] = value;
  }
  return parsed(labelsSelector(labels));
};

export interface PortText {
  readonly port: number | string;
  readonly protocol: PolicyProtocol;
}

/** Reads PORT or PORT/PROTOCOL; TCP where none is said. */
export const parsePortText = (text: string): Parsed<PortText> => {
  const [portText = "", protocolText = "TCP", ...more] = text.split("/");
  const protocol = POLICY_PROTOCOLS.find((known) => known === protocolText.toUpperCase());
  if (protocol === undefined || more.length > 0) {
    return problem(
      `${quoted(text)} is no port: write 443, 53/UDP or a port's name; protocols are TCP, UDP and SCTP`,
    );
  }
  const port = /^[0-9]+$/.test(portText) ? parsePort(Number(portText)) : parsePortName(portText);
  return port.ok
    ? parsed({ port: port.value, protocol })
    : problem(`${quoted(text)}: ${port.problem}`);
};

/** All addresses of both families. */
export const EVERYWHERE: readonly Cidr[] = [
  cidrFromParts({ family: 4, base: 0n, length: 0 }),
  cidrFromParts({ family: 6, base: 0n, length: 0 }),
];
