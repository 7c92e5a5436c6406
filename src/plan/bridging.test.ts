/** The condition `Bridged`: who has an address that the seed needs, and what is said of it. */

import t from "tap";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { NodeFacts, Tunnel } from "#src/model/tunnel.ts";
import { planBridging, type Bridging, type BridgingFacts } from "./bridging.ts";

const c = (text: string): Cidr => valueOf(parseCidr(text));
const ip = (text: string): IpAddress => valueOf(parseIp(text));

const tunnelWith = (...addresses: readonly string[]): Tunnel => ({
  namespace: "shoot--lab--alpha",
  name: "alpha",
  generation: 1,
  ranges: {
    nodes: [c("10.250.0.0/20")],
    pods: [c("10.128.0.0/17"), c("fd25:1::/56")],
    services: [c("172.28.0.0/22")],
  },
  endpoint: null,
  mode: "tun",
  transit: [c("198.18.0.0/23")],
  slots: 32,
  mtu: 1380,
  mapped: "overlapping",
  seedAddresses: addresses.map((address, at) => ({ name: `need-${at}`, address: ip(address) })),
});

const node: NodeFacts = {
  name: "n1",
  uid: "uid-n1",
  createdMs: 0,
  addresses: [ip("10.250.0.2")],
  podCidrs: [c("10.128.1.0/24"), c("fd25:1:0:1::/64")],
  isReady: true,
};
const map = { real: c("10.250.0.0/20"), mapped: c("10.64.0.0/20") };
const services = new Map([[ip("172.28.0.10"), "Service kube-system/kube-dns"]]);

const ROWS: readonly {
  name: string;
  needs: readonly string[];
  facts?: Partial<BridgingFacts>;
  want: Pick<Bridging, "status" | "reason"> | null;
  says?: RegExp;
}[] = [
  { name: "nothing meets", needs: ["192.0.2.1"], want: null },
  {
    name: "a needed address in a range where nobody has it",
    needs: ["172.28.2.7"],
    want: { status: "True", reason: "KeptOut" },
    says: /^addresses of the seed that are kept out of the tunnel: 1$/u,
  },
  {
    name: "maps, and an address that is kept out",
    needs: ["172.28.2.7"],
    facts: { maps: [map] },
    want: { status: "True", reason: "Mapped" },
    says: /^address maps: 1; addresses of the seed that are kept out of the tunnel: 1$/u,
  },
  {
    name: "a node has it",
    needs: ["10.250.0.2"],
    facts: { maps: [map] },
    want: { status: "False", reason: "AddressIsBoth" },
    says: /^10\.250\.0\.2 is needed in the seed \(need-0\) and is the shoot's Node n1: .*proxy mode/u,
  },
  {
    name: "a Service has it",
    needs: ["172.28.2.7", "172.28.0.10"],
    want: { status: "False", reason: "AddressIsBoth" },
    says: /^172\.28\.0\.10 is needed in the seed \(need-1\) and is the shoot's Service kube-system\/kube-dns: /u,
  },
  {
    name: "a pod may get it",
    needs: ["fd25:1:0:1::7"],
    facts: { maps: [map] },
    want: { status: "True", reason: "AddressMayBeBoth" },
    says: /is a pod address of the shoot's Node n1: a pod that gets it can't be reached/u,
  },
  {
    name: "services that were not looked at yet",
    needs: ["172.28.0.10"],
    facts: { services: null },
    want: { status: "True", reason: "KeptOut" },
  },
  {
    name: "a range without a map",
    needs: [],
    facts: { problems: ["10.250.0.0/20 has no address map: no room"] },
    want: { status: "False", reason: "NoMap" },
    says: /^10\.250\.0\.0\/20 has no address map: no room$/u,
  },
];

for (const { name, needs, facts = {}, want, says } of ROWS) {
  void t.test(`Bridged: ${name}`, async (t) => {
    const tunnel = tunnelWith(...needs);
    const got = planBridging({ tunnel, maps: [], problems: [], nodes: [node], services, ...facts });
    if (want === null) t.equal(got, null);
    else t.match(got, want);
    if (says !== undefined) t.match(got?.message, says);
  });
}

void t.test("the message is bounded, and counts what it does not name", async (t) => {
  const problems = Array.from({ length: 40 }, (_, at) => `problem ${at}`);
  const got = planBridging({
    tunnel: tunnelWith(),
    maps: [],
    problems,
    nodes: [],
    services: null,
  });
  t.match(got?.message, /problem 7; and 32 more$/u);
});
