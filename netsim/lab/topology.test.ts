import t from "tap";

import { type Topology, topologyProblems } from "./topology.ts";
import { nodeNames, twoNetworks, twoNetworksPlan } from "./two-networks.ts";
import { portsOf } from "./wiring.ts";

void t.test("the standard drawing names nothing that it does not have", (t) => {
  t.same(topologyProblems(twoNetworks()), []);
  t.end();
});

void t.test(
  "a topology that names what it does not have is refused with a sentence for each",
  (t) => {
    const eth0 = { network: "lan", addresses: ["10.0.0.1/24"] };
    const wrong: { name: string; topology: Topology; want: RegExp }[] = [
      {
        name: "name",
        topology: { name: "Lab_1", networks: {}, machines: {} },
        want: /"Lab_1" must be 1 to 24/,
      },
      {
        name: "network",
        topology: lab({ a: { interfaces: { eth0 } } }, {}),
        want: /a: there is no network "lan"/,
      },
      {
        name: "prefix length",
        topology: lab({ a: { interfaces: { eth0: { network: "lan", addresses: ["10.0.0.1"] } } } }),
        want: /10\.0\.0\.1 has no prefix length/,
      },
      {
        name: "interface",
        topology: lab({ a: { interfaces: { "a-very-long-name": eth0 } } }),
        want: /longer than 15 bytes/,
      },
      {
        name: "NAT",
        topology: lab({ a: { interfaces: { eth0 }, nat: { outside: "wan0" } } }),
        want: /NAT is on "wan0"/,
      },
      {
        name: "switch",
        topology: lab({ switch: { interfaces: { eth0 } } }),
        want: /No machine can be called "switch"/,
      },
    ];
    for (const { name, topology, want } of wrong)
      t.match(topologyProblems(topology).join("\n"), want, name);
    t.end();
  },
);

void t.test(
  "every range of the standard drawing has a prefix length of its own on each side",
  (t) => {
    const { seedRange, nodeRange, podRange, serviceRange } = twoNetworksPlan;
    const lengths = [seedRange, nodeRange, podRange, serviceRange].map(
      (range) => range.split("/")[1],
    );
    t.equal(
      new Set(lengths).size,
      lengths.length,
      `seed, nodes, pods, services: ${lengths.join(", ")}`,
    );
    t.end();
  },
);

void t.test("every cable has a name of its own in the switch", (t) => {
  const ports = portsOf(twoNetworks());
  t.equal(new Set(ports.map(({ port }) => port)).size, ports.length);
  for (const node of nodeNames)
    t.equal(ports.filter(({ machine }) => machine === node).length, 1, node);
  t.end();
});

function lab(
  machines: Topology["machines"],
  networks: Topology["networks"] = { lan: { ranges: [] } },
): Topology {
  return { name: "wrong", networks, machines };
}
