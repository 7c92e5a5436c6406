/** The changes that turn the observed network into the desired one: add before remove, nothing when equal. */

import type {
  NetworkDesired,
  NetworkObserved,
  NetworkOperation,
  Route,
} from "#src/model/network.ts";

/**
 * Orders the operations so that each finds what it needs: link, sysctls, addresses, routes, then removals.
 * A route that only changes its source is one `add-route`, which replaces; its removal is left out.
 */
export function diffNetwork(
  desired: NetworkDesired,
  observed: NetworkObserved,
): readonly NetworkOperation[] {
  const { link } = observed;
  const isLinkRight = link !== null && link.isUp && link.mtu === desired.mtu;
  const held = new Set(observed.addresses);
  const wanted = new Set(desired.addresses);
  const routesHeld = new Set(observed.routes.map(routeKey));
  // The kernel holds one route per destination here; of two wanted ones the first is kept.
  const byDestination = new Map(desired.routes.toReversed().map((r) => [r.destination, r]));
  const routesWanted = new Map(
    [...byDestination.values()]
      .toReversed()
      .map((route) => [routeKey({ ...route, interface: desired.interface }), route]),
  );
  return [
    ...(isLinkRight ? [] : [{ kind: "set-link", mtu: desired.mtu, up: true } as const]),
    ...Object.entries(desired.sysctls)
      .filter(([name, value]) => observed.sysctls[name] !== value)
      .map(([name, value]) => ({ kind: "set-sysctl", name, value }) as const),
    ...[...wanted]
      .filter((address) => !held.has(address))
      .map((address) => ({ kind: "add-address", address }) as const),
    ...[...routesWanted]
      .filter(([key]) => !routesHeld.has(key))
      .map(([, route]) => ({ kind: "add-route", route }) as const),
    ...observed.routes
      .filter((route) => !routesWanted.has(routeKey(route)))
      .filter((r) => r.interface !== desired.interface || !byDestination.has(r.destination))
      .map((route) => ({ kind: "remove-route", route }) as const),
    ...[...held]
      .filter((address) => !wanted.has(address))
      .map((address) => ({ kind: "remove-address", address }) as const),
  ];
}

const routeKey = (route: Route & { readonly interface: string }): string =>
  `${route.interface} ${route.destination} ${route.source ?? "any"}`;
