/** Addresses, routes, link state and sysctls of this machine's network namespace. */

import type { NetworkDesired, NetworkObserved, NetworkOperation } from "#src/model/network.ts";

/** Codes: `no-permission`, `no-such-interface`, `unsupported`, `io`. */
export interface Network {
  /** Reads the kernel; never answers from memory. */
  observe(want: Pick<NetworkDesired, "interface" | "sysctls">): Promise<NetworkObserved>;
  /** Runs one operation on `interfaceName`. Throws HostError whose message names the operation. */
  apply(interfaceName: string, operation: NetworkOperation): Promise<void>;
}
