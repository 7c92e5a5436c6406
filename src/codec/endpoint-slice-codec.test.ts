/** Where a Service leads, read from its slices and its own addresses; what is no TCP address is passed over. */

import t from "tap";
import { formatEndpoint } from "#src/model/endpoint.ts";
import { parseEndpointSlice, parseServiceEndpoints } from "./endpoint-slice-codec.ts";

const metadata = { namespace: "default", name: "kubernetes" };

const SLICES: readonly { name: string; object: object; want: readonly string[] | RegExp }[] = [
  {
    name: "two addresses and two ports, one of them UDP",
    object: {
      metadata,
      addressType: "IPv4",
      endpoints: [{ addresses: ["192.0.2.1"] }, { addresses: ["192.0.2.2"] }],
      ports: [{ port: 6443 }, { port: 53, protocol: "UDP" }],
    },
    want: ["192.0.2.1:6443", "192.0.2.2:6443"],
  },
  {
    name: "an IPv6 address",
    object: {
      metadata,
      addressType: "IPv6",
      endpoints: [{ addresses: ["2001:db8::1"] }],
      ports: [{ port: 443, protocol: "TCP" }],
    },
    want: ["[2001:db8::1]:443"],
  },
  { name: "nothing in it", object: { metadata, endpoints: null, ports: null }, want: [] },
  {
    name: "names instead of addresses",
    object: { metadata, addressType: "FQDN", endpoints: [{ addresses: ["a.example"] }] },
    want: [],
  },
  {
    name: "an address that is none",
    object: { metadata, endpoints: [{ addresses: ["192.0.2"] }], ports: [{ port: 443 }] },
    want: /EndpointSlice default\/kubernetes: endpoints\[0\]\.addresses\[0\]: /u,
  },
];

for (const { name, object, want } of SLICES) {
  void t.test(`a slice with ${name}`, (t) => {
    const read = parseEndpointSlice(object);
    if (want instanceof RegExp) t.match(read.ok ? "taken" : read.problem, want);
    else t.strictSame(read.ok ? read.value.map(formatEndpoint) : read.problem, want);
    t.end();
  });
}

void t.test("a Service's own addresses, both families; a headless one has none", (t) => {
  const ports = [{ port: 443 }, { port: 53, protocol: "UDP" }];
  const of = (clusterIPs: readonly string[]) => {
    const read = parseServiceEndpoints({ metadata, spec: { clusterIPs, ports } });
    return read.ok ? read.value.map(formatEndpoint) : read.problem;
  };
  t.strictSame(of(["10.96.0.1", "2001:db8::2"]), ["10.96.0.1:443", "[2001:db8::2]:443"]);
  t.strictSame(of(["None"]), []);
  t.end();
});
