import t from "tap";
import type { Test } from "tap";
import { openLab } from "#netsim/lab/lab.ts";
import { twoNetworks } from "#netsim/lab/two-networks.ts";
import { openCluster } from "./cluster.ts";
import type { Cluster } from "./cluster.ts";
import { openPrograms } from "./programs.ts";
import { twoNetworksDualSite } from "./site.ts";
import { webPod } from "./workloads.ts";

const isRoot = process.getuid?.() === 0;
t.setTimeout(120_000);

t.test(
  "a dual-stack shoot is reached by IPv6 with a route and not without",
  { skip: isRoot ? false : "needs root" },
  async (t) => {
    const programs = await openPrograms();
    const lab = await openLab(twoNetworks({ name: "dual-stack-test" }));
    try {
      const cluster = await openCluster(lab, { programs, site: twoNetworksDualSite });
      try {
        const places = await placesOf(t, cluster);
        for (const place of places) {
          const refused = await get(cluster, place);
          t.not(refused.code, 0);
          t.match(refused.stderr, /no route to host|network is unreachable/, place);
        }
        await cluster.plainRoutes.open();
        for (const place of places) {
          t.match(await get(cluster, place), { code: 0, stdout: /hello from web-/ }, place);
        }
        const kubelet = await get(cluster, `https://[${ipv6Of(cluster, "node1")}]:10250/healthz`);
        t.match(
          kubelet,
          { code: 0, stdout: "ok" },
          "the kubelet's certificate names both families",
        );
      } finally {
        await cluster.close();
      }
    } catch (error) {
      t.comment(`evidence is in ${await lab.evidence()}`);
      throw error;
    } finally {
      await lab.close();
    }
  },
);

async function placesOf(t: Test, cluster: Cluster): Promise<readonly string[]> {
  const { kubectl } = cluster.shoot;
  const jsonpath = async (what: readonly string[], path: string): Promise<string> =>
    (await kubectl.run(["get", ...what, "-o", `jsonpath={${path}}`])).stdout;
  const places: string[] = [];
  for (const { name } of cluster.site.nodes) {
    const pod = await jsonpath(["pod", webPod(name)], ".status.podIPs[1].ip");
    t.match(pod, /^fd25:0:1:/, `the pod on ${name} has its second address`);
    places.push(`http://[${pod}]:8080/`);
  }
  const service = await jsonpath(["service", "web"], ".spec.clusterIPs[1]");
  t.match(service, /^fd25:0:2:/, "the service has its second address");
  return [...places, `http://[${service}]/`];
}

function ipv6Of(cluster: Cluster, name: string): string {
  const node = cluster.site.nodes.find((each) => each.name === name);
  return node?.ipv6?.address ?? "";
}

async function get(
  cluster: Cluster,
  url: string,
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const { file } = cluster.shoot.keys;
  const identity = ["-cert", file("kubelet-client.crt"), "-key", file("kubelet-client.key")];
  const argv = [cluster.programs.labpod, "get", "-timeout", "3s", "-ca", file("ca.crt")];
  const namespace = cluster.lab.namespace(cluster.site.apiserver.machine);
  return namespace.run([...argv, ...identity, url], { check: false });
}
