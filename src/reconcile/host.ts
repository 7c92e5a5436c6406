/** Brings one machine to its desired state: observe, diff, apply, and tell what was really reached. */

import type { DeviceDesired } from "#src/model/device.ts";
import type {
  FirewallTable,
  NetworkDesired,
  NetworkObserved,
  NetworkOperation,
  Route,
} from "#src/model/network.ts";
import { isSameFirewall } from "#src/plan/firewall-equal.ts";
import { diffNetwork } from "#src/plan/network-diff.ts";
import type { Device } from "#src/ports/device.ts";
import type { Firewall } from "#src/ports/firewall.ts";
import { HostError, isHostError } from "#src/ports/host-error.ts";
import type { Network } from "#src/ports/network.ts";

/** Name of our interface where nobody says another; docs/objects.md lists all marks. */
const DEFAULT_INTERFACE = "xylem0";

export interface HostPorts {
  readonly network: Network;
  readonly firewall: Firewall;
  readonly device: Device;
}

export interface HostDesired {
  readonly network: NetworkDesired;
  readonly firewall: FirewallTable;
  readonly device: DeviceDesired;
}

/** What one pass did. */
export interface HostReport {
  /** Changes that succeeded, of the kernel and of the device; 0: everything was as desired. */
  readonly writes: number;
  /** One line per change that succeeded, in order. */
  readonly operations: readonly string[];
  /** Changes that failed; the others were done all the same. Empty: the desired state is reached. */
  readonly errors: readonly HostError[];
}

/**
 * Makes the machine as desired with the fewest writes. Never throws HostError: failures are in the report.
 * The filter goes first, and routes and peers only follow when it stands: nothing is open for a moment.
 * A firewall or device of null holds what is desired already.
 */
export async function reconcileHost(
  ports: Pick<HostPorts, "network"> & {
    readonly firewall: Firewall | null;
    readonly device: Device | null;
  },
  desired: HostDesired,
): Promise<HostReport> {
  const pass = new Pass();
  const { firewall, device } = ports;
  const isFiltered =
    firewall === null || (await pass.attempt(() => putFirewall(pass, firewall, desired.firewall)));
  if (!isFiltered) return pass.report();
  await pass.attempt(() => putNetwork(pass, ports.network, desired.network));
  if (device !== null) await pass.attempt(() => putDevice(pass, device, desired.device));
  return pass.report();
}

/** The last part of `reconcileHost` alone. */
export async function reconcileDevice(device: Device, desired: DeviceDesired): Promise<HostReport> {
  const pass = new Pass();
  await pass.attempt(() => putDevice(pass, device, desired));
  return pass.report();
}

/**
 * Removes everything of ours, also what a former run left: routes with our mark on any interface, addresses of
 * our interface, the firewall table. The interface goes with its device, which the caller closes before.
 */
export async function removeHost(
  ports: Pick<HostPorts, "network" | "firewall">,
  options: { readonly interface?: string } = {},
): Promise<HostReport> {
  const pass = new Pass();
  const name = options.interface ?? DEFAULT_INTERFACE;
  await pass.attempt(async () => {
    const observed = await ports.network.observe({ interface: name, sysctls: {} });
    await applyAll({ pass, network: ports.network, name, operations: removalOf(observed) });
  });
  // Last: while routes are there, the filter must be there.
  await pass.attempt(async () => {
    if ((await ports.firewall.observe()) === null) return;
    await ports.firewall.remove();
    pass.did("remove firewall table");
  });
  return pass.report();
}

async function putFirewall(pass: Pass, firewall: Firewall, table: FirewallTable): Promise<void> {
  const observed = await firewall.observe();
  const isThere =
    observed !== null && observed.foreignRules === 0 && isSameFirewall(observed.table, table);
  if (isThere) return;
  await firewall.replace(table);
  pass.did("replace firewall table");
}

async function putNetwork(pass: Pass, network: Network, desired: NetworkDesired): Promise<void> {
  const observed = await network.observe(desired);
  if (observed.link === null) {
    throw new HostError(
      "no-such-interface",
      `Interface ${desired.interface} does not exist: its addresses and routes wait until the device is open.`,
    );
  }
  const operations = diffNetwork(desired, observed);
  await applyAll({ pass, network, name: desired.interface, operations });
  // With the last IPv4 address of an interface the kernel removes its IPv4 routes too, wanted ones included.
  if (!operations.some((operation) => operation.kind === "remove-address")) return;
  const after = await network.observe(desired);
  const lost = diffNetwork(desired, after).filter((operation) => operation.kind === "add-route");
  await applyAll({ pass, network, name: desired.interface, operations: lost });
}

async function putDevice(pass: Pass, device: Device, desired: DeviceDesired): Promise<void> {
  const report = await device.set(desired);
  const changes = [
    [report.peersAdded, "add", "peer"],
    [report.peersUpdated, "update", "peer"],
    [report.peersRemoved, "remove", "peer"],
    [report.steeringChanged, "change", "steering target"],
  ] as const;
  for (const [count, verb, noun] of changes) {
    if (count > 0) pass.did(`${verb} ${count} ${noun}${count === 1 ? "" : "s"}`, count);
  }
}

async function applyAll(options: {
  pass: Pass;
  network: Network;
  name: string;
  operations: readonly NetworkOperation[];
}): Promise<void> {
  const { pass, network, name, operations } = options;
  for (const operation of operations) {
    await pass.attempt(async () => {
      await network.apply(name, operation);
      pass.did(describeOperation(operation));
    });
  }
}

function removalOf(observed: NetworkObserved): readonly NetworkOperation[] {
  return [
    ...(observed.rules ?? []).map((family) => ({ kind: "remove-rule", family }) as const),
    ...observed.routes.map((route) => ({ kind: "remove-route", route }) as const),
    ...observed.addresses.map((address) => ({ kind: "remove-address", address }) as const),
  ];
}

/** Says an operation in one line, for logs and golden texts. */
export function describeOperation(operation: NetworkOperation): string {
  switch (operation.kind) {
    case "set-link":
      return `set link mtu ${operation.mtu} ${operation.up ? "up" : "down"}`;
    case "add-address":
      return `add address ${operation.address}`;
    case "remove-address":
      return `remove address ${operation.address}`;
    case "add-route": {
      const { destination, source } = operation.route;
      return `add ${routeWords(operation.route)} ${destination}${source === null ? "" : ` from ${source}`}`;
    }
    case "remove-route": {
      const { route } = operation;
      return `remove ${routeWords(route)} ${route.destination} on ${route.interface}`;
    }
    case "add-rule":
      return `add rule for our own IPv${operation.family} routes`;
    case "remove-rule":
      return `remove rule for our own IPv${operation.family} routes`;
    case "set-sysctl":
      return `set sysctl ${operation.name} ${operation.value}`;
  }
}

const routeWords = ({ way, table }: Route): string => {
  const kind = way === "keep-out" ? "keep-out route" : "route";
  return table === "own" ? `own ${kind}` : kind;
};

/** Gathers what one pass did and what failed. */
class Pass {
  #writes = 0;
  readonly #operations: string[] = [];
  readonly #errors: HostError[] = [];

  did(operation: string, writes = 1): void {
    this.#writes += writes;
    this.#operations.push(operation);
  }

  /** Runs one part; a HostError is kept and ends only this part. */
  async attempt(part: () => Promise<void>): Promise<boolean> {
    try {
      await part();
      return true;
    } catch (e) {
      if (!isHostError(e)) throw e;
      this.#errors.push(e);
      return false;
    }
  }

  report(): HostReport {
    return { writes: this.#writes, operations: this.#operations, errors: this.#errors };
  }
}
