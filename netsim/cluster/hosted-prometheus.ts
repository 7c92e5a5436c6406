/** Prometheus as a pod of the shoot's namespace in the seed, with a gateway and shoot credentials of its own. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "#netsim/lab/process.ts";
import { sharedLibraries } from "../../scripts/shared-libraries.ts";
import { baseLayer, writeImage } from "../../scripts/oci-archive.ts";
import { hostedTunnel } from "./hosted-install.ts";
import type { HostedCluster } from "./hosted-cluster.ts";
import { livePods, rolledOut } from "./hosted-pods.ts";
import { type Prometheus, readTargets, scrapeConfiguration } from "./prometheus.ts";
import { asList, webPort } from "./workloads.ts";

const image = "lab.local/prometheus:1";
const name = "prometheus";
const port = 9090;
const secretName = "prometheus-xylem-shoot";

/** Writes the machine's own Prometheus as an OCI archive. */
export async function writePrometheusImage(file: string): Promise<string> {
  const { stdout } = await runCommand(["sh", "-c", "command -v prometheus"]);
  const program = stdout.trim();
  const files = { "bin/prometheus": program, ...(await sharedLibraries([program])) };
  await writeImage(file, {
    name: image,
    entrypoint: ["/bin/prometheus"],
    layers: [baseLayer, { files }],
  });
  return file;
}

/** Makes it as docs/install.md says, and resolves when its pod is Ready. */
export async function startHostedPrometheus(
  cluster: HostedCluster,
): Promise<Pick<Prometheus, "targets">> {
  const { seed, shoot, namespace, nodes, folder } = cluster;
  const place = join(folder, name);
  await mkdir(place, { recursive: true });
  const podsFile = join(place, "pods.json");
  const kubelets = nodes.map(({ address }) => `${address}:10250`);
  const text = scrapeConfiguration({ keys: shoot.keys, kubelets }, podsFile);
  await writeFile(join(place, "prometheus.yml"), text);
  await writeFile(podsFile, JSON.stringify([{ targets: await webTargets(cluster) }]));
  const objects = [await kubeconfigSecret(cluster), statefulSet(cluster, place)];
  await seed.kubectl.run(["apply", "-f", "-"], { input: asList(objects) });
  await rolledOut(seed.kubectl, `statefulset/${name}`, namespace);
  const [pod] = await livePods(seed.kubectl, { namespace, label: `app=${name}` });
  const url = `http://${pod?.status.podIP}:${port}/api/v1/targets?state=active`;
  const argv = [cluster.programs.labpod, "get", url];
  return {
    targets: async () => readTargets((await cluster.lab.namespace("seed").run(argv)).stdout),
  };
}

async function webTargets({ shoot }: HostedCluster): Promise<readonly string[]> {
  const pods = await livePods(shoot.kubectl, { namespace: "default", label: "app=web" });
  return pods.map(({ status }) => `${status.podIP}:${webPort}`);
}

/** Its server is the API server's Service: beside this gateway is none. */
async function kubeconfigSecret({ shoot, namespace }: HostedCluster) {
  const args = ["create", "token", "xylem-gateway", "-n", "kube-system", "--duration", "24h"];
  const token = (await shoot.kubectl.run(args)).stdout.trim();
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: "shoot",
        cluster: {
          server: shoot.server,
          "certificate-authority-data": Buffer.from(shoot.keys.authority.certificate).toString(
            "base64",
          ),
        },
      },
    ],
    users: [{ name: "shoot", user: { token } }],
    contexts: [{ name: "shoot", context: { cluster: "shoot", user: "shoot" } }],
    "current-context": "shoot",
  };
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { namespace, name: secretName },
    stringData: { kubeconfig: JSON.stringify(config) },
  };
}

function statefulSet({ namespace, shoot }: HostedCluster, place: string) {
  const labels = { app: name };
  const container = {
    name,
    image,
    imagePullPolicy: "Never",
    args: [
      `--config.file=${place}/prometheus.yml`,
      `--web.listen-address=:${port}`,
      "--storage.tsdb.path=/data",
    ],
    readinessProbe: { httpGet: { path: "/-/ready", port }, periodSeconds: 1 },
    volumeMounts: [
      { name: "configuration", mountPath: place },
      { name: "keys", mountPath: shoot.keys.folder },
      { name: "data", mountPath: "/data" },
    ],
  };
  const volumes = [
    { name: "configuration", hostPath: { path: place } },
    { name: "keys", hostPath: { path: shoot.keys.folder } },
    { name: "data", emptyDir: {} },
  ];
  return {
    apiVersion: "apps/v1",
    kind: "StatefulSet",
    metadata: { namespace, name },
    spec: {
      replicas: 1,
      serviceName: name,
      selector: { matchLabels: labels },
      template: {
        metadata: {
          labels: { ...labels, "xylem.dev/tunnel": hostedTunnel },
          annotations: { "xylem.dev/kubeconfig-secret": secretName },
        },
        spec: {
          automountServiceAccountToken: false,
          terminationGracePeriodSeconds: 5,
          containers: [container],
          volumes,
        },
      },
    },
  };
}
