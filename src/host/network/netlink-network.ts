/** The Network port over rtnetlink: touches only the interface it is told and routes that carry our protocol number. */

import type { Cidr } from "#src/model/cidr.ts";
import type { Family } from "#src/model/ip.ts";
import type {
  NetworkDesired,
  NetworkObserved,
  NetworkOperation,
  Route,
} from "#src/model/network.ts";
import { HostError, isHostError } from "#src/ports/host-error.ts";
import type { Network } from "#src/ports/network.ts";
import { RtnetlinkSocket, type NetlinkFailure } from "./netlink-socket.ts";
import {
  addressBody,
  linkByName,
  linkChange,
  NLM,
  readAddress,
  readLink,
  readRoute,
  readRule,
  ROUTE_PROTOCOL,
  routeBody,
  rpFilterChange,
  RTM,
  ruleBody,
  tableOf,
  type AddressMessage,
  type LinkMessage,
  type RouteMessage,
} from "./rtnetlink-messages.ts";
import { readSysctl, writeSysctl } from "./sysctl-files.ts";

/** The kernel's answers to the removal of what is not there, for addresses and routes of both families. */
const ABSENT: readonly string[] = ["ESRCH", "EADDRNOTAVAIL", "ENODEV", "ENOENT"];

/** The kernel's own link-local addresses come and go with the link; they are never ours. */
const isKernelsOwn = (address: Cidr): boolean => /^fe[89ab]/.test(address);

/** The network of the namespace that this process was in when the value was made. */
export class NetlinkNetwork implements Network {
  readonly #socket: RtnetlinkSocket;

  /** Throws HostError `unsupported` where there is no netlink. */
  constructor() {
    this.#socket = new RtnetlinkSocket();
  }

  /** Link-local IPv6 addresses and routes of tables that are neither the main one nor ours are left out: we never make any. */
  async observe(want: Pick<NetworkDesired, "interface" | "sysctls">): Promise<NetworkObserved> {
    const links = (await this.#socket.dump(RTM.getLink)).map(readLink).filter((l) => l !== null);
    const link = links.find((l) => l.name === want.interface);
    const addresses = link === undefined ? [] : await this.#addresses(link.index);
    const names = new Map(links.map((l) => [l.index, l.name]));
    const routes = (await this.#ourRoutes()).map(({ index, destination, source, ...more }) => ({
      destination,
      source,
      // A route that keeps packets out has no interface: it is that of whoever asks.
      ...(more.isThrow
        ? { interface: want.interface, way: "keep-out" as const }
        : { interface: (index === null ? undefined : names.get(index)) ?? "" }),
      ...(tableOf(more.table) === "own" ? { table: "own" as const } : {}),
    }));
    const rules = await this.#ourRules();
    const sysctls: Record<string, string> = {};
    for (const name of Object.keys(want.sysctls)) {
      const value = await readSysctl(name);
      if (value !== null) sysctls[name] = value;
    }
    return {
      link: link === undefined ? null : { mtu: link.mtu, isUp: link.isUp },
      addresses: addresses.map((a) => a.address).filter((a) => !isKernelsOwn(a)),
      routes,
      ...(rules.length === 0 ? {} : { rules }),
      sysctls,
    };
  }

  async apply(interfaceName: string, operation: NetworkOperation): Promise<void> {
    switch (operation.kind) {
      case "set-link":
        return this.#setLink(interfaceName, operation);
      case "add-address":
        return this.#addAddress(interfaceName, operation.address);
      case "remove-address":
        return this.#removeAddress(interfaceName, operation.address);
      case "add-route":
        return this.#addRoute(interfaceName, operation.route);
      case "remove-route":
        return this.#removeRoute(operation.route);
      case "add-rule":
        return this.#addRule(interfaceName, operation.family);
      case "remove-rule":
        return this.#removeRule(interfaceName, operation.family);
      case "set-sysctl":
        return this.#setSysctl(interfaceName, operation);
    }
  }

  /** Closes the netlink socket. */
  close(): void {
    this.#socket.close();
  }

  async #setLink(name: string, change: { mtu: number; up: boolean }): Promise<void> {
    const what = `Set link (mtu ${change.mtu}, ${change.up ? "up" : "down"})`;
    const { index } = await this.#link(name, what);
    const body = linkChange({ index, mtu: change.mtu, up: change.up });
    const answer = await this.#socket.request({ type: RTM.newLink, flags: 0, body });
    if (!answer.ok) throw kernelError({ what, name, failure: answer.failure });
  }

  async #addAddress(name: string, address: Cidr): Promise<void> {
    const what = `Add address ${address}`;
    const { index } = await this.#link(name, what);
    const answer = await this.#socket.request({
      type: RTM.newAddress,
      flags: NLM.create | NLM.exclusive,
      body: addressBody({ index, address, prefixLength: null }),
    });
    if (answer.ok || answer.failure.errno === "EEXIST") return;
    throw kernelError({ what, name, failure: answer.failure });
  }

  async #removeAddress(name: string, address: Cidr): Promise<void> {
    const link = await this.#findLink(name);
    if (link === null) return;
    for (const found of await this.#addresses(link.index)) {
      if (found.address !== address) continue;
      const body = addressBody({ index: link.index, address, prefixLength: found.prefixLength });
      const answer = await this.#socket.request({ type: RTM.deleteAddress, flags: 0, body });
      if (answer.ok || ABSENT.includes(answer.failure.errno)) continue;
      throw kernelError({ what: `Remove address ${address}`, name, failure: answer.failure });
    }
  }

  async #addRoute(name: string, route: Route): Promise<void> {
    const from = route.source === null ? "" : ` with source ${route.source}`;
    const what = `Add route ${route.destination}${from}`;
    const index = route.way === "keep-out" ? null : (await this.#link(name, what)).index;
    const body = routeBody({ ...route, index });
    const create = NLM.create | NLM.exclusive;
    const answer = await this.#socket.request({ type: RTM.newRoute, flags: create, body });
    if (answer.ok) return;
    if (answer.failure.errno !== "EEXIST")
      throw kernelError({ what, name, failure: answer.failure });

    const holders = await this.#routesTo(route);
    const foreign = holders.find((r) => r.protocol !== ROUTE_PROTOCOL);
    if (foreign !== undefined) {
      const owner = `protocol ${foreign.protocol}, interface number ${foreign.index ?? "unknown"}`;
      throw new HostError(
        "io",
        `${what} on ${name} is refused: the machine has another route to ${route.destination} (${owner}). ` +
          "Remove that route, or take the range out of the tunnel.",
      );
    }
    if (holders.some((r) => isSame(r, { ...route, index }))) return;
    const replaced = await this.#socket.request({
      type: RTM.newRoute,
      flags: NLM.create | NLM.replace,
      body,
    });
    if (!replaced.ok) throw kernelError({ what, name, failure: replaced.failure });
  }

  /** The kernel ignores the source when it deletes (always for IPv6), so the exact route is looked up first. */
  async #removeRoute(route: Route & { readonly interface: string }): Promise<void> {
    const isThrow = route.way === "keep-out";
    const index = isThrow ? null : ((await this.#findLink(route.interface))?.index ?? null);
    const holders = await this.#routesTo(route);
    const found = holders.some(
      (r) => r.protocol === ROUTE_PROTOCOL && isSame(r, { ...route, index }),
    );
    if (!found || (index === null && !isThrow)) return;
    const body = routeBody({ ...route, index });
    const answer = await this.#socket.request({ type: RTM.deleteRoute, flags: 0, body });
    if (answer.ok || ABSENT.includes(answer.failure.errno)) return;
    const what = `Remove route ${route.destination}`;
    throw kernelError({ what, name: route.interface, failure: answer.failure });
  }

  async #addRule(name: string, family: Family): Promise<void> {
    if ((await this.#ourRules()).includes(family)) return;
    const answer = await this.#socket.request({
      type: RTM.newRule,
      flags: NLM.create | NLM.exclusive,
      body: ruleBody(family),
    });
    if (answer.ok || answer.failure.errno === "EEXIST") return;
    const what = `Add the rule for our own IPv${family} routes`;
    throw kernelError({ what, name, failure: answer.failure });
  }

  async #removeRule(name: string, family: Family): Promise<void> {
    const body = ruleBody(family);
    const answer = await this.#socket.request({ type: RTM.deleteRule, flags: 0, body });
    if (answer.ok || ABSENT.includes(answer.failure.errno)) return;
    const what = `Remove the rule for our own IPv${family} routes`;
    throw kernelError({ what, name, failure: answer.failure });
  }

  async #ourRules(): Promise<readonly Family[]> {
    const all = (await this.#socket.dump(RTM.getRule)).map(readRule);
    return [...new Set(all.filter((family) => family !== null))].toSorted((a, b) => a - b);
  }

  /** A container with NET_ADMIN that is not privileged has a read-only /proc/sys, but netlink. */
  async #setSysctl(name: string, operation: { name: string; value: string }): Promise<void> {
    try {
      await writeSysctl(operation.name, operation.value);
    } catch (e) {
      const link = /^net\.ipv4\.conf\.(.+)\.rp_filter$/u.exec(operation.name)?.[1];
      if (!isHostError(e) || e.code !== "no-permission" || link === undefined) throw e;
      const what = `Set sysctl ${operation.name}`;
      const { index } = await this.#link(link, what);
      const body = rpFilterChange(index, Number(operation.value));
      const answer = await this.#socket.request({ type: RTM.newLink, flags: 0, body });
      if (!answer.ok) throw kernelError({ what, name, failure: answer.failure });
    }
  }

  async #link(name: string, what: string): Promise<LinkMessage> {
    const link = await this.#findLink(name);
    if (link !== null) return link;
    throw kernelError({ what, name, failure: { errno: "ENODEV" } });
  }

  async #findLink(name: string): Promise<LinkMessage | null> {
    const body = linkByName(name);
    const answer = await this.#socket.request({ type: RTM.getLink, flags: 0, body });
    if (!answer.ok) {
      if (answer.failure.errno === "ENODEV") return null;
      throw kernelError({ what: "Read link", name, failure: answer.failure });
    }
    const [first] = answer.bodies;
    return first === undefined ? null : readLink(first);
  }

  async #addresses(index: number): Promise<readonly AddressMessage[]> {
    const all = (await this.#socket.dump(RTM.getAddress)).map(readAddress);
    return all.filter((a) => a !== null).filter((a) => a.index === index);
  }

  async #ourRoutes(): Promise<readonly RouteMessage[]> {
    const all = (await this.#socket.dump(RTM.getRoute)).map(readRoute);
    return all
      .filter((r) => r !== null)
      .filter((r) => r.protocol === ROUTE_PROTOCOL && tableOf(r.table) !== null);
  }

  /** Routes to the same destination in the same table, whoever made them. */
  async #routesTo({ destination, table }: Route): Promise<readonly RouteMessage[]> {
    const wanted = table ?? "main";
    const all = (await this.#socket.dump(RTM.getRoute)).map(readRoute);
    return all
      .filter((r) => r !== null)
      .filter((r) => r.destination === destination && tableOf(r.table) === wanted);
  }
}

const isSame = (held: RouteMessage, route: Route & { readonly index: number | null }): boolean => {
  if (held.isThrow !== (route.way === "keep-out") || held.source !== route.source) return false;
  return held.isThrow || held.index === route.index;
};

function kernelError(options: { what: string; name: string; failure: NetlinkFailure }): HostError {
  const { what, name, failure } = options;
  const head = `${what} on ${name} failed (${failure.errno})`;
  switch (failure.errno) {
    case "EPERM":
    case "EACCES":
      return new HostError(
        "no-permission",
        `${head}: give the container the capability NET_ADMIN.`,
      );
    case "ENODEV":
      return new HostError(
        "no-such-interface",
        `${head}: there is no interface of this name; the tunnel's device is not open.`,
      );
    case "EOPNOTSUPP":
    case "EAFNOSUPPORT":
      return new HostError(
        "unsupported",
        `${head}: this kernel or namespace lacks the address family.`,
      );
    case "ENETDOWN":
      return new HostError("io", `${head}: the interface is down.`);
    case "EINVAL":
      return new HostError(
        "io",
        `${head}: the kernel refuses the values; a route's source must be an address of this machine, an MTU must be 1280 or more for IPv6.`,
      );
    default:
      return new HostError("io", `${head}.`);
  }
}
