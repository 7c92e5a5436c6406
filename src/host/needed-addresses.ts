/** Addresses that this process can't be without: the API servers that it asks, and the DNS servers (resolv.conf(5)). */

import { readFile } from "node:fs/promises";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { CredentialsSource } from "./kube/credentials.ts";

/** The C library looks at three. */
const DNS_SERVERS_MAX = 3;

export interface NeededAddressSources {
  readonly credentials: readonly CredentialsSource[];
  /** Default: /etc/resolv.conf. */
  readonly resolvConf?: string;
}

/** Reads them anew; what can't be read or is only known by name is left out. Loopback addresses are nobody's to take. */
export const neededAddresses = async (
  sources: NeededAddressSources,
): Promise<readonly IpAddress[]> => {
  const [dns, ...servers] = await Promise.all([
    dnsServers(sources.resolvConf ?? "/etc/resolv.conf"),
    ...sources.credentials.map(serverAddress),
  ]);
  return [...new Set([...servers.flat(), ...(dns ?? [])])].filter(
    (address) => !address.startsWith("127.") && address !== "::1",
  );
};

const serverAddress = async (credentials: CredentialsSource): Promise<readonly IpAddress[]> => {
  try {
    const { server } = await credentials.read({ fresh: false });
    return addressOf(new URL(server).hostname.replace(/^\[|\]$/g, ""));
  } catch (error) {
    if (!isHostError(error) && !(error instanceof TypeError)) throw error;
    return [];
  }
};

const dnsServers = async (file: string): Promise<readonly IpAddress[]> => {
  const text = await readFile(file, "utf8").catch(() => "");
  return text
    .split("\n")
    .flatMap((line) => addressOf(/^nameserver\s+(\S+)/.exec(line)?.[1] ?? ""))
    .slice(0, DNS_SERVERS_MAX);
};

const addressOf = (text: string): readonly IpAddress[] => {
  const read = parseIp(text);
  return read.ok ? [read.value] : [];
};
