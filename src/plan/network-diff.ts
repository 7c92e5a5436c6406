/** The operations that turn the observed network into the desired one; none when they are equal. */

import type { Family } from "#src/model/ip.ts";
import type {
  NetworkDesired,
  NetworkObserved,
  NetworkOperation,
  Route,
} from "#src/model/network.ts";

/**
 * Link first, then sysctls, addresses, routes and rules to add; removals last, so that nothing is away for a moment. A
 * rule goes before the routes of our own table do, and what stays out of the tunnel is added before what does not.
 * A route whose source or interface changed is added (which replaces) and its old form removed. Sysctls are only set.
 */
export const diffNetwork = (
  desired: NetworkDesired,
  observed: NetworkObserved,
): NetworkOperation[] => {
  const { link } = observed;
  const isLinkRight = link !== null && link.isUp && link.mtu === desired.mtu;
  const wantedAddresses = new Set(desired.addresses);
  const foundAddresses = new Set(observed.addresses);
  const ourRoute = (route: Route) => ({ ...route, interface: desired.interface });
  const wantedRoutes = new Set(desired.routes.map((route) => routeKey(ourRoute(route))));
  const foundRoutes = new Set(observed.routes.map(routeKey));
  return [
    ...(isLinkRight ? [] : [{ kind: "set-link", mtu: desired.mtu, up: true } as const]),
    ...Object.entries(desired.sysctls)
      .filter(([name, value]) => observed.sysctls[name] !== value)
      .map(([name, value]) => ({ kind: "set-sysctl", name, value }) as const),
    ...[...wantedAddresses]
      .filter((address) => !foundAddresses.has(address))
      .map((address) => ({ kind: "add-address", address }) as const),
    ...desired.routes
      .filter((route) => !foundRoutes.has(routeKey(ourRoute(route))))
      .toSorted((a, b) => Number(b.way === "keep-out") - Number(a.way === "keep-out"))
      .map((route) => ({ kind: "add-route", route }) as const),
    ...without(desired.rules, observed.rules).map(
      (family) => ({ kind: "add-rule", family }) as const,
    ),
    ...without(observed.rules, desired.rules).map(
      (family) => ({ kind: "remove-rule", family }) as const,
    ),
    ...observed.routes
      .filter((route) => !wantedRoutes.has(routeKey(route)))
      .map((route) => ({ kind: "remove-route", route }) as const),
    ...observed.addresses
      .filter((address) => !wantedAddresses.has(address))
      .map((address) => ({ kind: "remove-address", address }) as const),
  ];
};

const without = (list: readonly Family[] = [], gone: readonly Family[] = []): readonly Family[] =>
  list.filter((family) => !gone.includes(family));

const routeKey = (route: Route & { readonly interface: string }): string => {
  const { destination, source, way = "tunnel", table = "main" } = route;
  return `${destination} ${source ?? "-"} ${route.interface} ${way} ${table}`;
};
