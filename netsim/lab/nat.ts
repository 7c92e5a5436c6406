/** The NAT of a router: its nftables text, its timeouts and its memory of flows (nft(8), RFC 4787). */

import type { Namespace } from "./namespace.ts";
import type { NatSpec } from "./topology.ts";

const natTable = "inet lab-nat";

/** Returns the nftables text of a NAT router: one table, replaced as a whole. */
export const natRules = (nat: NatSpec): string => {
  const forwards = (nat.forwards ?? []).map(
    (f) =>
      `    ip daddr ${f.address} ${f.protocol} dport ${f.port} dnat ip to ${f.toAddress}:${f.toPort}`,
  );
  return `add table ${natTable}
delete table ${natTable}
table ${natTable} {
  counter unsolicited { }
  chain inbound {
    ct state established,related accept
    ct status dnat accept
    icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-advert } accept
    counter name unsolicited drop
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    iifname "${nat.outside}" jump inbound
  }
  chain input {
    type filter hook input priority 0; policy accept;
    iifname "${nat.outside}" icmp type echo-request accept
    iifname "${nat.outside}" jump inbound
  }
  chain prerouting {
    type nat hook prerouting priority -100;
${forwards.join("\n")}
  }
  chain postrouting {
    type nat hook postrouting priority 100;
    oifname "${nat.outside}" masquerade${nat.ports === "random" ? " random" : ""}
  }
}
`;
};

/** How many packets a NAT router has dropped because nobody inside had asked for them. */
export const unsolicitedPackets = async (router: Namespace): Promise<number> => {
  const { stdout } = await router.run([
    "nft",
    "list",
    "counter",
    ...natTable.split(" "),
    "unsolicited",
  ]);
  return Number(/packets (\d+)/.exec(stdout)?.[1] ?? "0");
};

/** Sets after how long this namespace forgets an idle UDP flow, whether or not it was ever answered. */
export const setUdpTimeout = async (namespace: Namespace, seconds: number): Promise<void> => {
  await namespace.run([
    "sysctl",
    "-qw",
    `net.netfilter.nf_conntrack_udp_timeout=${seconds}`,
    `net.netfilter.nf_conntrack_udp_timeout_stream=${seconds}`,
  ]);
};

/** Makes a router or balancer forget every flow, as a reboot does; live flows go on as new ones. */
export const forgetFlows = async (namespace: Namespace): Promise<void> => {
  await namespace.run(["conntrack", "-F"]);
};

/** The conntrack entries of one protocol, as conntrack(8) prints them. */
export const listFlows = async (
  namespace: Namespace,
  protocol: "udp" | "tcp",
): Promise<string[]> => {
  const { stdout } = await namespace.run(["conntrack", "-L", "-p", protocol]);
  return stdout.split("\n").filter((line) => line.trim() !== "");
};
