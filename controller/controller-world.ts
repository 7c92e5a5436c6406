/** A seed and a shoot in memory with a controller between them, for this room's tests. */

import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { FakeKube } from "#src/host/kube/fake-kube.ts";
import { seededRandom } from "#src/host/random.ts";
import { slotMemoryNone } from "#src/host/slot-memory-file.ts";
import { TUNNELS } from "#src/ports/kube-resource.ts";
import { SlotClaim } from "#src/reconcile/slot-claim.ts";
import { Controller, type ControllerParts } from "./controller.ts";

export const NAME = { namespace: "shoot--lab--alpha", name: "alpha" };
export const SECRET = { namespace: "shoot--lab--alpha", name: "alpha-xylem" };
export const GATEWAYS = { namespace: "kube-system", name: "xylem" };
export const RANGES = {
  nodes: ["10.250.0.0/20"],
  pods: ["10.222.0.0/17"],
  services: ["10.97.0.0/22"],
};

/** Nothing is stored and nothing runs yet. */
export const world = () => {
  const clock = new FakeClock();
  const log = new FakeLog();
  const seed = new FakeKube({ clock, log });
  const shoot = new FakeKube({ clock, log });
  const opened: string[] = [];
  const random = seededRandom(1);
  const start = (
    parts: Pick<ControllerParts, "policies" | "onPass" | "audit" | "seedNetwork"> = {},
  ) =>
    new Controller({
      ...parts,
      seed,
      openShoot: ({ namespace, name }) => {
        opened.push(`${namespace}/${name}`);
        return shoot;
      },
      clock,
      random,
      log,
      namespace: undefined,
      tunnel: undefined,
    });
  const condition = (type: string) => {
    const status = Object(seed.peek(TUNNELS, NAME)?.["status"]);
    const conditions: unknown = status.conditions;
    return Array.isArray(conditions) ? conditions.find((c) => Object(c).type === type) : undefined;
  };
  const status = () => Object(seed.peek(TUNNELS, NAME)?.["status"]);
  /** A gateway that claims a slot; what it heard last is told with its Lease. */
  const claim = (lastHandshakeMs: () => number | null = () => null) =>
    new SlotClaim({
      kube: seed,
      clock,
      log,
      random,
      memory: slotMemoryNone(),
      namespace: NAME.namespace,
      tunnel: NAME.name,
      slots: 32,
      identity: "uid-of-the-pod",
      gatewayName: "kube-apiserver-0",
      lastHandshakeMs,
      onLost: () => undefined,
    }).start();
  return { clock, log, seed, shoot, opened, start, condition, status, claim };
};

export const tunnel = (spec: object = {}) => ({
  metadata: NAME,
  spec: { ranges: RANGES, ...spec },
});

export const node = (name: string) => ({
  metadata: { name },
  spec: { podCIDRs: ["10.222.1.0/24"] },
  status: {
    addresses: [{ type: "InternalIP", address: "10.250.0.11" }],
    conditions: [{ type: "Ready", status: "True" }],
  },
});
