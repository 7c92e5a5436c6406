/** A Network in memory that keeps the kernel's rules that matter here; for tests, with counters and faults. */

import type { Cidr } from "#src/model/cidr.ts";
import { hostCidr } from "#src/model/cidr.ts";
import type { Family, IpAddress } from "#src/model/ip.ts";
import type {
  NetworkDesired,
  NetworkObserved,
  NetworkOperation,
  Route,
} from "#src/model/network.ts";
import { HostError } from "#src/ports/host-error.ts";
import type { Network } from "#src/ports/network.ts";
import { Faults } from "../faults.ts";

const OUR_PROTOCOL = 158;

interface FakeLink {
  mtu: number;
  isUp: boolean;
  readonly addresses: Set<Cidr>;
}

interface FakeRoute {
  readonly interface: string;
  readonly destination: Cidr;
  readonly source: IpAddress | null;
  readonly protocol: number;
  readonly way?: "keep-out";
  readonly table?: "own";
}

export class FakeNetwork implements Network {
  /** Faults by operation kind, or `observe`. */
  readonly faults = new Faults();
  /** Operations that were done, also those that found nothing to do. */
  writes = 0;
  readonly #links = new Map<string, FakeLink>();
  #routes: FakeRoute[] = [];
  readonly #rules = new Set<Family>();
  readonly #sysctls = new Map<string, string>();

  /** What a device does when it makes its TUN: down, without addresses, strict rp_filter inherited. */
  addLink(name: string, options: { mtu?: number; rpFilter?: string } = {}): void {
    this.#links.set(name, { mtu: options.mtu ?? 1500, isUp: false, addresses: new Set() });
    this.#sysctls.set(`net.ipv4.conf.${name}.rp_filter`, options.rpFilter ?? "0");
  }

  /** Takes its addresses, routes and sysctls with it, as the kernel does. */
  removeLink(name: string): void {
    this.#links.delete(name);
    this.#routes = this.#routes.filter((route) => isElsewhere(route, name));
    for (const sysctl of this.#sysctls.keys()) {
      if (sysctl.split(".").includes(name)) this.#sysctls.delete(sysctl);
    }
  }

  /** Somebody else adds a route; protocol 3 is `boot`, what ip(8) sets. */
  addRouteOf(options: { interface: string; destination: Cidr; protocol: number }): void {
    this.#routes.push({ source: null, ...options });
  }

  /** Somebody else removes routes to a destination. */
  dropRoutes(destination: Cidr): void {
    this.#routes = this.#routes.filter((route) => route.destination !== destination);
  }

  /** Somebody else sets a sysctl. */
  setSysctl(name: string, value: string): void {
    this.#sysctls.set(name, value);
  }

  async observe(want: Pick<NetworkDesired, "interface" | "sysctls">): Promise<NetworkObserved> {
    this.faults.hit("observe");
    const link = this.#links.get(want.interface);
    const sysctls = Object.keys(want.sysctls).flatMap((name) => {
      const value = this.#sysctls.get(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    return {
      link: link === undefined ? null : { mtu: link.mtu, isUp: link.isUp },
      addresses: [...(link?.addresses ?? [])],
      routes: this.#routes
        .filter((route) => route.protocol === OUR_PROTOCOL)
        .map(({ destination, source, interface: dev, way, table }) => ({
          destination,
          source,
          interface: dev,
          ...(way === undefined ? {} : { way }),
          ...(table === undefined ? {} : { table }),
        })),
      ...(this.#rules.size === 0 ? {} : { rules: [...this.#rules].toSorted((a, b) => a - b) }),
      sysctls: Object.fromEntries(sysctls),
    };
  }

  async apply(interfaceName: string, operation: NetworkOperation): Promise<void> {
    this.faults.hit(operation.kind);
    this.writes++;
    switch (operation.kind) {
      case "set-link":
        this.#setLink(interfaceName, operation);
        return;
      case "add-address":
        this.#link(interfaceName).addresses.add(operation.address);
        return;
      case "remove-address":
        this.#removeAddress(interfaceName, operation.address);
        return;
      case "add-route":
        this.#addRoute(interfaceName, operation.route);
        return;
      case "remove-route":
        this.#routes = this.#routes.filter((route) => !isOurs(route, operation.route));
        return;
      case "add-rule":
        this.#rules.add(operation.family);
        return;
      case "remove-rule":
        this.#rules.delete(operation.family);
        return;
      case "set-sysctl":
        this.#setSysctl(operation.name, operation.value);
    }
  }

  /** The whole network as text, for golden tests. */
  print(): string {
    const links = [...this.#links].map(([name, link]) =>
      [
        `link ${name} mtu ${link.mtu} ${link.isUp ? "up" : "down"}`,
        ...[...link.addresses].toSorted(),
      ].join(" "),
    );
    const routes = this.#routes.map(
      ({ destination, interface: dev, source, protocol, ...more }) => {
        const from = source === null ? "" : ` from ${source}`;
        const way = more.way === "keep-out" ? "throw" : `dev ${dev}`;
        const table = more.table === "own" ? ` table ${protocol}` : "";
        return `route ${destination} ${way}${from} proto ${protocol}${table}`;
      },
    );
    const rules = [...this.#rules]
      .toSorted((a, b) => a - b)
      .map((family) => `rule IPv${family} own table`);
    const sysctls = [...this.#sysctls].map(([name, value]) => `sysctl ${name} ${value}`);
    return [...links, ...routes.toSorted(), ...rules, ...sysctls.toSorted()].join("\n");
  }

  #setLink(name: string, change: { mtu: number; up: boolean }): void {
    const link = this.#link(name);
    link.mtu = change.mtu;
    link.isUp = change.up;
    if (!change.up) this.#routes = this.#routes.filter((route) => isElsewhere(route, name));
  }

  /**
   * IPv4 routes with it as their source go too, IPv6 ones lose the source; with the last IPv4 address all
   * IPv4 routes of the link go.
   */
  #removeAddress(name: string, address: Cidr): void {
    const addresses = this.#links.get(name)?.addresses;
    if (addresses?.delete(address) !== true) return;
    const isV4 = (cidr: Cidr): boolean => !cidr.includes(":");
    const isLastV4 = isV4(address) && ![...addresses].some(isV4);
    this.#routes = this.#routes
      .filter((r) => !isLastV4 || isElsewhere(r, name) || !isV4(r.destination))
      .filter((r) => r.source === null || hostCidr(r.source) !== address || !isV4(address))
      .map((r) =>
        r.source !== null && hostCidr(r.source) === address ? { ...r, source: null } : r,
      );
  }

  #addRoute(name: string, route: Route): void {
    const link = this.#link(name);
    const what = `Add route ${route.destination} on ${name}`;
    if (!link.isUp) throw new HostError("io", `${what} failed (ENETDOWN): the interface is down.`);
    const { source } = route;
    const held = [...this.#links.values()].flatMap((l) => [...l.addresses]);
    if (source !== null && !held.includes(hostCidr(source))) {
      throw new HostError(
        "io",
        `${what} failed (EINVAL): ${source} is no address of this machine.`,
      );
    }
    const same = this.#routes.filter(
      (r) => r.destination === route.destination && r.table === route.table,
    );
    if (same.some((r) => r.protocol !== OUR_PROTOCOL)) {
      throw new HostError("io", `${what} is refused: the machine has another route.`);
    }
    const added = { ...route, interface: name, protocol: OUR_PROTOCOL };
    this.#routes = [...this.#routes.filter((r) => !same.includes(r)), added];
  }

  #setSysctl(name: string, value: string): void {
    if (!this.#sysctls.has(name)) {
      throw new HostError("no-such-interface", `Sysctl ${name} can't be set to ${value} (ENOENT).`);
    }
    this.#sysctls.set(name, value);
  }

  #link(name: string): FakeLink {
    const link = this.#links.get(name);
    if (link !== undefined) return link;
    throw new HostError("no-such-interface", `There is no interface ${name}.`);
  }
}

const isOurs = (held: FakeRoute, gone: Route & { readonly interface: string }): boolean =>
  held.protocol === OUR_PROTOCOL &&
  held.destination === gone.destination &&
  held.source === gone.source &&
  held.way === gone.way &&
  held.table === gone.table &&
  held.interface === gone.interface;

/** A route that keeps packets out has no interface, and stays when ours goes. */
const isElsewhere = (route: FakeRoute, link: string): boolean =>
  route.way === "keep-out" || route.interface !== link;
