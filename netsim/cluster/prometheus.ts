/** The machine's own Prometheus in a pod namespace of the seed, watching the shoot's kubelets and pods. */

import { mkdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import type { Namespace } from "#netsim/lab/namespace.ts";
import type { ClusterKeys } from "./pki.ts";

/** What its configuration says. */
export interface ScrapeSpec {
  /** Of the shoot: the kubelets ask for its client certificate. */
  readonly keys: ClusterKeys;
  /** host:port list. */
  readonly kubelets: readonly string[];
  /** Where targets are asked for over HTTP, `<url>/nodes` and `<url>/pods`; left out: the lists above. */
  readonly discoveryUrl?: string;
  /** For a gateway in proxy mode, e.g. http://127.0.0.1:3128. */
  readonly proxyUrl?: string;
}

export interface PrometheusSpec extends ScrapeSpec {
  readonly namespace: Namespace;
  readonly folder: string;
  readonly logs: string;
  readonly labpod: string;
  /** host:port list. */
  readonly pods: readonly string[];
}

export interface ScrapeTarget {
  readonly job: string;
  readonly instance: string;
  readonly isUp: boolean;
  readonly lastError: string;
  /** Unix ms. */
  readonly lastScrapeMs: number;
}

export interface Prometheus {
  /** Replaces the pod targets, host:port; seen within a second. */
  readonly setPods: (pods: readonly string[]) => Promise<void>;
  readonly targets: () => Promise<readonly ScrapeTarget[]>;
  readonly stop: () => Promise<void>;
}

const address = "127.0.0.1:9090";

/** Starts it and resolves when it answers; a target that is down is not its problem. */
export async function startPrometheus(spec: PrometheusSpec): Promise<Prometheus> {
  await mkdir(join(spec.folder, "data"), { recursive: true });
  const file = join(spec.folder, "prometheus.yml");
  const podsFile = join(spec.folder, "pods.json");
  const setPods = async (pods: readonly string[]): Promise<void> => {
    await writeFile(`${podsFile}.new`, JSON.stringify([{ targets: pods }]));
    await rename(`${podsFile}.new`, podsFile);
  };
  await Promise.all([writeFile(file, scrapeConfiguration(spec, podsFile)), setPods(spec.pods)]);
  const argv = ["prometheus", "--config.file", file, "--web.listen-address", address];
  const running = spec.namespace.spawn(
    [...argv, "--storage.tsdb.path", join(spec.folder, "data")],
    { log: join(spec.logs, "prometheus.log") },
  );
  const get = async (path: string, flags: readonly string[]): Promise<string> => {
    const done = await spec.namespace.run([
      spec.labpod,
      "get",
      ...flags,
      `http://${address}${path}`,
    ]);
    return done.stdout;
  };
  const ended = running.exited.then(({ code }): never => {
    throw new Error(`prometheus ended with ${code}; its log is ${running.log}`);
  });
  await Promise.race([get("/-/ready", ["-until", "15s"]), ended]);
  ended.catch(() => {});
  return {
    setPods,
    targets: async () => readTargets(await get("/api/v1/targets?state=active", [])),
    stop: () => running.stop(2000),
  };
}

/** The text of prometheus.yml; `podsFile` holds the pods' addresses. */
export function scrapeConfiguration(spec: ScrapeSpec, podsFile: string): string {
  const proxy = spec.proxyUrl === undefined ? {} : { proxy_url: spec.proxyUrl };
  const { file } = spec.keys;
  const discovered = (what: string): object | null =>
    spec.discoveryUrl === undefined
      ? null
      : { http_sd_configs: [{ url: `${spec.discoveryUrl}/${what}`, refresh_interval: "1s" }] };
  return stringify({
    global: { scrape_interval: "1s", scrape_timeout: "1s" },
    scrape_configs: [
      {
        job_name: "kubelet",
        scheme: "https",
        ...proxy,
        tls_config: {
          ca_file: file("ca.crt"),
          cert_file: file("kubelet-client.crt"),
          key_file: file("kubelet-client.key"),
          // A kubelet's certificate names its real address; at a mapped one only the tunnel knows the node, by its key.
          ...(spec.discoveryUrl === undefined ? {} : { insecure_skip_verify: true }),
        },
        ...(discovered("nodes") ?? { static_configs: [{ targets: spec.kubelets }] }),
      },
      {
        job_name: "pod",
        ...proxy,
        ...(discovered("pods") ?? {
          file_sd_configs: [{ files: [podsFile], refresh_interval: "1s" }],
        }),
      },
    ],
  });
}

interface TargetsAnswer {
  readonly data: {
    readonly activeTargets: readonly {
      readonly labels: { readonly job: string; readonly instance: string };
      readonly health: string;
      readonly lastError: string;
      readonly lastScrape: string;
    }[];
  };
}

/** Reads what `/api/v1/targets` answers. */
export function readTargets(text: string): readonly ScrapeTarget[] {
  const answer = JSON.parse(text) as TargetsAnswer;
  return answer.data.activeTargets.map(({ labels, health, lastError, lastScrape }) => ({
    job: labels.job,
    instance: labels.instance,
    isUp: health === "up",
    lastError,
    lastScrapeMs: Date.parse(lastScrape),
  }));
}
