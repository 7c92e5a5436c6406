/** What every DeviceFactory and its devices must do, without any packet; run against the fake and the native data plane. */

import type { Test } from "tap";
import { parseAgentId } from "#src/model/agent-id.ts";
import { parseCidr } from "#src/model/cidr.ts";
import type { DevicePeer, DeviceStats } from "#src/model/device.ts";
import { parseEndpoint } from "#src/model/endpoint.ts";
import { parsePrivateKey, publicKeyFromBytes, type PublicKey } from "#src/model/key.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { parseSlot } from "#src/model/slot.ts";
import type { Device, DeviceFactory, DeviceOptions } from "#src/ports/device.ts";
import { isHostError } from "#src/ports/host-error.ts";

export interface DeviceBench {
  readonly devices: DeviceFactory;
  /** Names of the interfaces that this machine has. */
  links(): Promise<readonly string[]>;
}

/** A valid X25519 public key per number; nobody knows the private ones. */
const KEYS = {
  one: key(9),
  two: key(16),
  three: key(25),
};

const gateway: DeviceOptions = {
  identity: { kind: "gateway", slot: must(parseSlot(2)) },
  privateKey: must(parsePrivateKey(new Uint8Array(32).fill(7))),
  interface: "xylem0",
  mtu: 1380,
  listenPort: 0,
  paths: 3,
  offload: false,
};

const agent: DeviceOptions = {
  ...gateway,
  identity: { kind: "agent", agentId: must(parseAgentId(4711)) },
  interface: "xylem1",
  paths: 1,
};

const unchanged = {
  peersAdded: 0,
  peersUpdated: 0,
  peersRemoved: 0,
  steeringChanged: 0,
  conflicts: [],
};

/** Adds the suite to `t`; `makeBench` gives a machine without devices each time. */
export function deviceCompliance(t: Test, makeBench: () => Promise<DeviceBench>): void {
  const test = (
    name: string,
    body: (
      t: Test,
      open: (options: DeviceOptions) => Promise<Device>,
      bench: DeviceBench,
    ) => Promise<void>,
  ): void => {
    void t.test(name, async (t) => {
      const bench = await makeBench();
      const opened: Device[] = [];
      t.teardown(async () => {
        for (const device of opened) await device.close();
      });
      const open = async (options: DeviceOptions): Promise<Device> => {
        const device = await bench.devices.open(options, () => undefined);
        opened.push(device);
        return device;
      };
      await body(t, open, bench);
    });
  };

  test("a device makes its interface and takes it away, once or twice", async (t, open, bench) => {
    const device = await open(gateway);
    t.ok((await bench.links()).includes("xylem0"));
    t.match(device.stats(), { interface: "xylem0", peers: [], relayFlows: 0 });
    t.ok(device.stats().listenPort > 0);
    t.equal(device.stats().paths.length, 3);
    await device.close();
    await device.close();
    t.notOk((await bench.links()).includes("xylem0"));
    const again = await open(gateway);
    t.equal(again.stats().interface, "xylem0");
  });

  test("set is total and idempotent", async (t, open) => {
    const device = await open(gateway);
    const peers = [
      peer({ key: KEYS.one }),
      peer({ key: KEYS.two, agentId: 5, allowedIps: ["10.2.0.0/24"] }),
    ];
    t.match(await device.set({ peers, steering: [] }), { ...unchanged, peersAdded: 2 });
    t.strictSame(await device.set({ peers, steering: [] }), unchanged);
    t.strictSame(keysOf(device.stats()), [KEYS.one, KEYS.two].toSorted());
    t.match(await device.set({ peers: peers.slice(1), steering: [] }), {
      ...unchanged,
      peersRemoved: 1,
    });
    t.strictSame(keysOf(device.stats()), [KEYS.two]);
  });

  test("stats say what was set, in canonical words", async (t, open) => {
    const device = await open(gateway);
    const wanted = peer({
      key: KEYS.one,
      endpoint: "[2001:db8::1]:51820",
      allowedIps: ["10.1.0.7/32", "fd00:1::/64"],
    });
    await device.set({ peers: [wanted], steering: [] });
    const [held] = device.stats().peers;
    t.match(held, {
      publicKey: KEYS.one,
      agentId: 4711,
      slot: 2,
      endpoint: { address: "2001:db8::1", port: 51_820 },
      handshakeAgeMs: null,
      receivedAgeMs: null,
      rxBytes: 0,
    });
    t.strictSame(held?.allowedIps.toSorted(), wanted.allowedIps.toSorted());
  });

  test("a peer that was never spoken to was not measured", async (t, open) => {
    const device = await open(gateway);
    const peers = [peer({ key: KEYS.one }), peer({ key: KEYS.two, agentId: 5, allowedIps: [] })];
    await device.set({ peers, steering: [] });
    t.strictSame(device.measured(), []);
  });

  test("a changed allowedIps or endpoint is one update", async (t, open) => {
    const device = await open(gateway);
    await device.set({ peers: [peer({ key: KEYS.one })], steering: [] });
    const wider = peer({ key: KEYS.one, allowedIps: ["10.1.0.0/24", "10.9.0.0/24"] });
    t.match(await device.set({ peers: [wider], steering: [] }), { ...unchanged, peersUpdated: 1 });
    const moved = { ...wider, endpoint: must(parseEndpoint("198.51.100.9:51820")) };
    t.match(await device.set({ peers: [moved], steering: [] }), { ...unchanged, peersUpdated: 1 });
    t.match(device.stats().peers, [{ endpoint: { address: "198.51.100.9" } }]);
  });

  test("W26 a prefix wanted by two peers stays with its first owner, and the survivor gets it", async (t, open) => {
    const device = await open(gateway);
    const first = peer({ key: KEYS.one, allowedIps: ["10.1.0.0/24"] });
    const second = peer({ key: KEYS.two, agentId: 5, allowedIps: ["10.1.0.0/24"] });
    await device.set({ peers: [first], steering: [] });
    const report = await device.set({ peers: [second, first], steering: [] });
    t.match(report.conflicts, [{ allowedIp: "10.1.0.0/24", kept: KEYS.one, refused: KEYS.two }]);
    await device.set({ peers: [second], steering: [] });
    t.match(device.stats().peers, [{ publicKey: KEYS.two, allowedIps: ["10.1.0.0/24"] }]);
  });

  test("an agent holds its steering targets, totally and idempotently", async (t, open) => {
    const device = await open(agent);
    const target = {
      agentId: must(parseAgentId(99)),
      publicKey: KEYS.three,
      endpoint: must(parseEndpoint("10.250.3.8:51820")),
    };
    const peers = [peer({ key: KEYS.one, endpoint: null })];
    t.match(await device.set({ peers, steering: [target] }), { peersAdded: 1, steeringChanged: 1 });
    t.strictSame(await device.set({ peers, steering: [target] }), unchanged);
    t.match(device.stats().peers, [{ endpoint: null }]);
    t.match(await device.set({ peers, steering: [] }), { ...unchanged, steeringChanged: 1 });
  });

  test("a second device of the same interface is refused, and the first lives on", async (t, open) => {
    const device = await open(gateway);
    const error = await open(gateway).then(
      () => null,
      (e: unknown) => e,
    );
    t.ok(isHostError(error) && error.code === "interface-in-use", String(error));
    t.match(error, { message: /xylem0/ });
    t.equal(device.stats().interface, "xylem0");
  });

  test("a closed device refuses set with the code `closed`", async (t, open) => {
    const device = await open(gateway);
    await device.close();
    const error = await device.set({ peers: [], steering: [] }).then(
      () => null,
      (e: unknown) => e,
    );
    t.ok(isHostError(error) && error.code === "closed", String(error));
  });
}

function peer(options: {
  key: PublicKey;
  agentId?: number;
  endpoint?: string | null;
  allowedIps?: readonly string[];
}): DevicePeer {
  const { endpoint = "192.0.2.10:51820", allowedIps = ["10.1.0.0/24"] } = options;
  return {
    publicKey: options.key,
    agentId: must(parseAgentId(options.agentId ?? 4711)),
    slot: must(parseSlot(2)),
    endpoint: endpoint === null ? null : must(parseEndpoint(endpoint)),
    allowedIps: allowedIps.map((cidr) => must(parseCidr(cidr))),
  };
}

const keysOf = (stats: DeviceStats): readonly string[] =>
  stats.peers.map((held) => held.publicKey).toSorted();

function key(first: number): PublicKey {
  const bytes = new Uint8Array(32);
  bytes[0] = first;
  return must(publicKeyFromBytes(bytes));
}

function must<T>(read: Parsed<T>): T {
  if (read.ok) return read.value;
  throw new TypeError(read.problem);
}
