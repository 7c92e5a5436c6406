/** What a person compares on the command line: a block, an address, or the name of something that has blocks. */

import { hostCidr, parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp } from "#src/model/ip.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { parseName } from "./fields.ts";

export type CidrSubject =
  | { readonly kind: "range"; readonly cidr: Cidr }
  | { readonly kind: "claim"; readonly namespace: string; readonly name: string }
  | { readonly kind: "seed"; readonly name: string }
  | { readonly kind: "pool"; readonly name: string };

/** Reads `10.0.0.0/8`, `10.0.0.1`, `claim/NAMESPACE/NAME`, `seed/NAME` or `pool/NAME`; the kinds' full names work too. */
export const parseCidrSubject = (text: string): Parsed<CidrSubject> => {
  const [word = "", ...names] = text.split("/");
  switch (word.toLowerCase()) {
    case "claim":
    case "networkclaim": {
      const [namespace, name] = names;
      if (names.length !== 2 || !parseName(namespace).ok || !parseName(name).ok) {
        return problem(`${quoted(text)} names no claim: write claim/NAMESPACE/NAME`);
      }
      return parsed({ kind: "claim", namespace: namespace ?? "", name: name ?? "" });
    }
    case "seed":
    case "seednetwork":
      return readNamed(text, { kind: "seed", names });
    case "pool":
    case "networkpool":
      return readNamed(text, { kind: "pool", names });
    default:
      return readRange(text);
  }
};

const readNamed = (
  text: string,
  read: { readonly kind: "pool" | "seed"; readonly names: readonly string[] },
): Parsed<CidrSubject> => {
  const [name] = read.names;
  return name === undefined || read.names.length !== 1 || !parseName(name).ok
    ? problem(`${quoted(text)} names no ${read.kind}: write ${read.kind}/NAME`)
    : parsed({ kind: read.kind, name });
};

const readRange = (text: string): Parsed<CidrSubject> => {
  if (/^[a-z]/i.test(text) && !text.includes(":")) {
    return problem(
      `${quoted(text)} is neither a CIDR nor an address nor claim/NAMESPACE/NAME, seed/NAME or pool/NAME`,
    );
  }
  if (!text.includes("/")) {
    const ip = parseIp(text);
    return ip.ok ? parsed({ kind: "range", cidr: hostCidr(ip.value) }) : ip;
  }
  const cidr = parseCidr(text);
  return cidr.ok ? parsed({ kind: "range", cidr: cidr.value }) : cidr;
};
