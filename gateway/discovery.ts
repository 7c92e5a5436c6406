/** HTTP service discovery for the Prometheus of this pod: /discovery/nodes and /discovery/pods. */

import { parseScrapePod } from "#src/codec/scrape-pod-codec.ts";
import { Readings, whatIsMissing } from "#src/host/kube/readings.ts";
import type { StatusPage } from "#src/host/status/status-server.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import type { ScrapePod, TargetGroup } from "#src/model/scrape-pod.ts";
import { type DiscoveryFacts, discoverNodes, discoverPods } from "#src/plan/discovery.ts";
import type { Kube, KubeObject, Reflector } from "#src/ports/kube.ts";
import { PODS } from "#src/ports/kube-resource.ts";
import type { ShootView } from "./shoot-view.ts";
import type { TunnelView } from "./tunnel-view.ts";

export interface DiscoveryParts {
  readonly kube: Kube;
  /** Which pods, as a label selector; null: none are asked for, which needs no right to list them. */
  readonly pods: string | null;
  readonly tunnels: Pick<TunnelView, "tunnel" | "maps">;
  readonly shoot: Pick<ShootView, "missing" | "nodes">;
}

/** Answers from local copies; a question costs no call. */
export class Discovery {
  readonly #parts: DiscoveryParts;
  readonly #readings = new Readings<ScrapePod>("Pod", parseScrapePod);
  readonly #pods: Reflector | null;

  constructor(parts: DiscoveryParts) {
    this.#parts = parts;
    const { kube, pods } = parts;
    this.#pods =
      pods === null
        ? null
        : kube.reflect(PODS, {
            labelSelector: pods,
            fieldSelector: "status.phase=Running",
            onChange: () => undefined,
            prune: prunePod,
          });
  }

  /** Null: no page of ours. */
  page(path: string): StatusPage | null {
    switch (path) {
      case "/discovery/nodes":
        return answer(this.nodes());
      case "/discovery/pods":
        return this.#pods === null
          ? { code: 404, contentType: "text/plain", text: NOT_ASKED }
          : answer(this.#podGroups(this.#pods));
      default:
        return null;
    }
  }

  /** Targets of the nodes; the problem is one sentence. */
  nodes(): Parsed<readonly TargetGroup[]> {
    const { shoot } = this.#parts;
    const missing = shoot.missing();
    if (missing !== null) return problem(missing);
    const facts = this.#facts();
    return facts.ok ? discoverNodes({ ...facts.value, nodes: shoot.nodes.values }) : facts;
  }

  #podGroups(pods: Reflector): Parsed<readonly TargetGroup[]> {
    const missing = whatIsMissing("the shoot's API server", [pods]);
    if (missing !== null) return problem(missing);
    this.#readings.update(pods.items);
    const facts = this.#facts();
    return facts.ok ? discoverPods({ ...facts.value, pods: this.#readings.values }) : facts;
  }

  /** The tunnel as it is carried now. */
  #facts(): Parsed<DiscoveryFacts> {
    const { tunnels } = this.#parts;
    const tunnel = tunnels.tunnel();
    return tunnel.ok ? parsed({ tunnel: tunnel.value, maps: tunnels.maps() }) : tunnel;
  }

  stop(): void {
    this.#pods?.stop();
  }
}

const NOT_ASKED =
  "this gateway was not told which pods to tell of: start it with --discover-pods SELECTOR\n";

/** A failure makes Prometheus keep the targets that it has. */
const answer = (groups: Parsed<readonly TargetGroup[]>): StatusPage =>
  groups.ok
    ? { code: 200, contentType: "application/json", text: JSON.stringify(groups.value) }
    : { code: 503, contentType: "text/plain", text: `${groups.problem}\n` };

const pick = (value: unknown, names: readonly string[]): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name)))
    : {};

/** Keeps what the codec reads: a pod's spec and status are ten times as much. */
const prunePod = (object: KubeObject): KubeObject => {
  const { containers } = pick(object["spec"], ["containers"]);
  const identity = ["namespace", "uid", "resourceVersion", "labels", "annotations"];
  return {
    metadata: { ...pick(object.metadata, identity), name: object.metadata.name },
    spec: {
      ...pick(object["spec"], ["nodeName"]),
      ...(Array.isArray(containers)
        ? { containers: containers.map((one: unknown) => pick(one, ["name", "ports"])) }
        : {}),
    },
    status: pick(object["status"], ["podIPs", "conditions"]),
  };
};
