/** Tunnels that can't be: refused by the API server, or told in the condition Accepted while the old one works on. */

import type { Test } from "tap";
import { waitFor } from "#netsim/lab/wait.ts";
import type { EndStatus } from "./product.ts";
import { tunnelName, tunnelNamespace } from "./product.ts";
import { execIn, type TunnelCluster } from "./tunnel-cluster.ts";

interface TunnelObject {
  readonly metadata: { readonly generation: number };
  readonly spec: { readonly ranges: Readonly<Record<string, readonly string[]>> };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason: string;
      readonly message: string;
    }[];
    readonly gateways?: readonly unknown[];
  };
}

const where = ["tunnel", tunnelName, "-n", tunnelNamespace];

const readTunnel = async ({ cluster }: TunnelCluster): Promise<TunnelObject> =>
  JSON.parse(
    (await cluster.seed.kubectl.run(["get", ...where, "-o", "json"])).stdout,
  ) as TunnelObject;

const patchTunnel = ({ cluster }: TunnelCluster, spec: object) =>
  cluster.seed.kubectl.run(["patch", ...where, "--type=merge", "-p", JSON.stringify({ spec })], {
    check: false,
  });

/** The condition Accepted once the controller has looked at the spec of now. */
const acceptedNow = (site: TunnelCluster) =>
  waitFor(
    "the controller says what it thinks of the spec",
    async () => {
      const tunnel = await readTunnel(site);
      const { generation } = tunnel.metadata;
      if (tunnel.status?.observedGeneration !== generation)
        throw new Error(`generation ${generation}: ${JSON.stringify(tunnel.status)}`);
      return {
        tunnel,
        accepted: tunnel.status.conditions?.find(({ type }) => type === "Accepted"),
      };
    },
    { timeoutMs: 15_000 },
  );

/** What one field can say alone, the API server refuses; nothing is stored. */
export const wantRefusedTunnels = async (t: Test, site: TunnelCluster): Promise<void> => {
  const before = await readTunnel(site);
  const cases = [
    {
      name: "host bits",
      spec: { ranges: { nodes: ["10.250.1.0/20"] } },
      want: /spec\.ranges\.nodes\[0\]: Invalid value: .*must be a canonical CIDR without host bits/,
    },
    {
      name: "no CIDR at all",
      spec: { ranges: { services: ["everything"] } },
      want: /spec\.ranges\.services\[0\]: Invalid value: .*must be a canonical CIDR/,
    },
    {
      name: "an empty list",
      spec: { ranges: { pods: [] } },
      want: /spec\.ranges\.pods: Invalid value: .*should have at least 1 items/,
    },
    {
      name: "an empty transit list",
      spec: { transit: [] },
      want: /spec\.transit: Invalid value: .*should have at least 1 items/,
    },
    {
      name: "two transit ranges of one family",
      spec: { transit: ["198.18.0.0/23", "198.19.0.0/23"] },
      want: /spec\.transit: Invalid value: .*must have at most one range per family/,
    },
    {
      name: "more slots than an index can name",
      spec: { slots: 300 },
      want: /spec\.slots: Invalid value: 300: .*should be less than or equal to 256/,
    },
  ];
  for (const { name, spec, want } of cases) {
    const { code, stderr } = await patchTunnel(site, spec);
    t.not(code, 0, `${name}: refused`);
    t.match(stderr, want, name);
  }
  t.equal((await readTunnel(site)).metadata.generation, before.metadata.generation);
};

/** What needs several fields is the controller's to say; the gateways that run go on with what they had. */
export const wantLastGoodKept = async (t: Test, site: TunnelCluster): Promise<void> => {
  const { cluster, product } = site;
  const { spec } = await readTunnel(site);
  const { nodes, pods } = cluster.site.ranges;
  const small = "198.18.0.0/28";
  const cases = [
    {
      name: "overlapping ranges",
      spec: { ranges: { services: [pods] } },
      want: `spec.ranges.services[0] ${pods} overlaps spec.ranges.pods[0] ${pods}: a tunnel's ranges must be disjoint`,
    },
    {
      name: "a reserved range",
      spec: { ranges: { nodes: ["169.254.0.0/20"] } },
      want: "spec.ranges.nodes[0] 169.254.0.0/20 overlaps 169.254.0.0/16, which is reserved (link-local): choose another range",
    },
    {
      name: "a transit range that is too small",
      spec: { transit: [small] },
      want: `spec.transit ${small} has 16 addresses, but 32 slots need 33: take a larger range or fewer slots`,
    },
    {
      name: "a transit range over the nodes",
      spec: { transit: [nodes] },
      want: `spec.transit[0] ${nodes} overlaps spec.ranges.nodes[0] ${nodes}: set spec.transit to a range that nothing else uses`,
    },
  ];
  const good = { ...spec, transit: ["198.18.0.0/23"] };
  for (const { name, spec: bad, want } of cases) {
    await patchTunnel(site, { ...good, ...bad, ranges: { ...good.ranges, ...bad.ranges } });
    const { tunnel, accepted } = await acceptedNow(site);
    t.match(accepted, { status: "False", reason: "InvalidSpec" }, name);
    t.match(accepted?.message, want, name);
    t.equal(tunnel.status?.gateways?.length, 2, `${name}: the gateways are still there`);
    const status = await gatewaySays(site, want);
    t.equal(status.problem, null, `${name}: the gateway is ready`);
    t.ok((await execIn(cluster, "node2")) > 0, `${name}: exec works`);
  }
  const late = product.gateways.prometheus;
  await late.stop();
  late.start();
  const said = await waitFor("a gateway that starts now says why it can't", async () => {
    const problem = (await late.status())?.problem;
    return problem?.includes("spec.transit") === true ? problem : null;
  });
  t.match(said, `Tunnel ${tunnelNamespace}/${tunnelName}`, said);
  await patchTunnel(site, good);
  t.match((await acceptedNow(site)).accepted, { status: "True", reason: "Valid" });
  await late.ready();
  await waitFor("the gateway has nothing more to say", async () => {
    const findings = (await product.gateways.apiserver.status())?.findings ?? [];
    return !findings.some(({ code }) => code === "spec-not-taken");
  });
};

const gatewaySays = ({ product }: TunnelCluster, sentence: string): Promise<EndStatus> =>
  waitFor("the gateway says why the spec is not taken", async () => {
    const status = await product.gateways.apiserver.status();
    const finding = status?.findings.find(({ code }) => code === "spec-not-taken");
    if (finding?.message.includes(sentence) !== true) throw new Error(JSON.stringify(finding));
    return status;
  });

/** Two slots with one address would take each other's answers; whoever writes that is told so. */
export const wantDuplicateRefused = async (t: Test, { cluster }: TunnelCluster): Promise<void> => {
  const { kubectl } = cluster.shoot;
  const object = ["tunnelgateways", "xylem", "-n", "kube-system"];
  const patch = [{ op: "replace", path: "/spec/slots/1/addresses", value: ["198.18.0.1"] }];
  const { code, stderr } = await kubectl.run(
    ["patch", ...object, "--type=json", "-p", JSON.stringify(patch)],
    { check: false },
  );
  t.not(code, 0, "refused");
  t.match(stderr, /spec\.slots: .*two slots have the same transit address/);
};
