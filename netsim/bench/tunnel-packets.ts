/** Counts the tunnel's UDP datagrams in a namespace with a table of nftables of the benchmark's own. */

import type { Namespace } from "#netsim/lab/namespace.ts";
import { twoNetworksPlan } from "#netsim/lab/two-networks.ts";

const table = "inet xylem-bench";

/** Before connection tracking and any other rule; what is counted passes. */
const rules = `table ${table} {
  counter tunnel { }
  chain input {
    type filter hook prerouting priority -400;
    meta l4proto udp udp dport ${twoNetworksPlan.tunnelPort} counter name tunnel
    meta l4proto udp udp sport ${twoNetworksPlan.tunnelPort} counter name tunnel
  }
  chain output {
    type filter hook output priority -400;
    meta l4proto udp udp dport ${twoNetworksPlan.tunnelPort} counter name tunnel
    meta l4proto udp udp sport ${twoNetworksPlan.tunnelPort} counter name tunnel
  }
}
`;

/** Begins to count in a namespace; calling it again begins anew. */
export const countTunnelPackets = async (namespace: Namespace): Promise<void> => {
  const again = `table ${table}\ndelete table ${table}\n${rules}`;
  await namespace.run(["nft", "-f", "-"], { input: again });
};

/** Datagrams in and out since the count began; a batch that the kernel carries as one counts once. */
export const tunnelPackets = async (namespace: Namespace): Promise<number> => {
  const { stdout } = await namespace.run(["nft", "list", "counter", ...table.split(" "), "tunnel"]);
  return parseCounter(stdout);
};

/** Reads the packets of one counter as nft lists it. */
export const parseCounter = (text: string): number => {
  const packets = /packets (\d+) bytes \d+/.exec(text)?.[1];
  if (packets === undefined) throw new Error(`nft listed no counter: ${text}`);
  return Number(packets);
};
