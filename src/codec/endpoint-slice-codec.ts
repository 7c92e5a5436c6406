/** `EndpointSlice` of discovery.k8s.io/v1: where a Service really leads, after its own address was translated. */

import { parsePort, type Endpoint } from "#src/model/endpoint.ts";
import { parseIp } from "#src/model/ip.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { fieldAt, fieldOf, isAbsent, itemsOf, reading, take, type Field } from "./fields.ts";

/** Limits of the API (100 addresses an endpoint, 100 ports) and of whoever fills a slice (1000 endpoints). */
const ENDPOINTS_MAX = 1_000;
const LIST_MAX = 100;

/** Every address of a slice with every TCP port; whether an endpoint is ready does not matter to who may speak to it. */
export const parseEndpointSlice = (object: unknown): Parsed<readonly Endpoint[]> =>
  reading({ kind: "EndpointSlice", object }, (root) => {
    // Names of hosts are no addresses; nobody makes such slices for API servers.
    if (fieldOf(root, "addressType").value === "FQDN") return [];
    const ports = takeTcpPorts(fieldOf(root, "ports"));
    const addresses = itemsOf(fieldOf(root, "endpoints"), { max: ENDPOINTS_MAX }).flatMap(
      (endpoint) =>
        itemsOf(fieldOf(endpoint, "addresses"), { max: LIST_MAX }).map((item) =>
          take(item, parseIp),
        ),
    );
    return addresses.flatMap((address) => ports.map((port) => ({ address, port })));
  });

/** The cluster addresses of a core/v1 Service with its TCP ports; a headless one has none. */
export const parseServiceEndpoints = (object: unknown): Parsed<readonly Endpoint[]> =>
  reading({ kind: "Service", object }, (root) => {
    const ports = takeTcpPorts(fieldAt(root, "spec", "ports"));
    const addresses = itemsOf(fieldAt(root, "spec", "clusterIPs"), { max: LIST_MAX })
      .filter(({ value }) => value !== "None")
      .map((item) => take(item, parseIp));
    return addresses.flatMap((address) => ports.map((port) => ({ address, port })));
  });

const takeTcpPorts = (list: Field): readonly number[] =>
  itemsOf(list, { max: LIST_MAX })
    .filter((port) => {
      const protocol = fieldOf(port, "protocol");
      return isAbsent(protocol) || protocol.value === "TCP";
    })
    .map((port) => take(fieldOf(port, "port"), parsePort));
