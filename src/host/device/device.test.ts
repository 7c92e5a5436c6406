/** The device suite against the fake, and as root against the native data plane; then what its errors become. */

import { execFileSync } from "node:child_process";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import t from "tap";
import { parseAgentId } from "#src/model/agent-id.ts";
import { parsePrivateKey } from "#src/model/key.ts";
import type { DeviceEvent } from "#src/model/device.ts";
import type { Parsed } from "#src/model/parsed.ts";
import type { DeviceOptions } from "#src/ports/device.ts";
import { isHostError } from "#src/ports/host-error.ts";
import { FakeNetwork } from "../network/fake-network.ts";
import { freshNamespace, type Namespace } from "../network/fresh-namespace.ts";
import { AddonDeviceFactory, type NativeDataplane } from "./addon-device.ts";
import { whyNoAddon } from "./built-addon.ts";
import { deviceCompliance } from "./device-compliance.ts";
import { FakeDeviceFactory } from "./fake-device.ts";
import { inodesOfPort } from "./udp-port-holder.ts";

const namespace = orWithoutAddon(freshNamespace(import.meta.filename));
switch (namespace.kind) {
  case "inside":
    deviceCompliance(t, async () => ({ devices: new AddonDeviceFactory(), links }));
    void t.test("W39 a port that is taken is named with its process", async (t) => {
      const socket = createSocket("udp4").bind(51_820);
      t.teardown(() => socket.close());
      await once(socket, "listening");
      const error = await failureOf(new AddonDeviceFactory());
      t.match(error, {
        code: "port-in-use",
        message: new RegExp(`UDP port 51820 .*pid ${process.pid}`),
      });
    });
    break;
  case "outside":
    void t.test("fake", async (t) => deviceCompliance(t, fakeBench));
    void t.spawn(namespace.command, [...namespace.args], { env: namespace.env }, "native");
    break;
  case "impossible":
    void t.test("fake", async (t) => deviceCompliance(t, fakeBench));
    void t.test("native", { skip: namespace.reason }, () => undefined);
    break;
}

if (namespace.kind !== "inside") {
  for (const { code, want, says } of [
    { code: "no-tun", want: "no-tun", says: /\/dev\/net\/tun is missing.*hostPath/ },
    { code: "no-permission", want: "no-permission", says: /NET_ADMIN/ },
    { code: "port-in-use", want: "port-in-use", says: /UDP port 51820 is taken by/ },
    { code: "interface-in-use", want: "interface-in-use", says: /xylem0 is in use/ },
    {
      code: "bad-config",
      want: "bad-config",
      says: /refuses the configuration of xylem0: what it said/,
    },
    { code: "closed", want: "closed", says: /xylem0 is closed/ },
    { code: "io", want: "io", says: /what it said/ },
    { code: "never-heard-of", want: "io", says: /what it said/ },
    { code: undefined, want: "io", says: /what it said/ },
  ]) {
    void t.test(`the addon's code ${code} becomes a sentence that says what to do`, async (t) => {
      const error = Object.assign(new Error("what it said"), code === undefined ? {} : { code });
      const devices = new AddonDeviceFactory(async () => ({
        openDevice: () => Promise.reject(error),
      }));
      t.match(await failureOf(devices), { code: want, message: says });
    });
  }

  void t.test("an addon that can't be loaded is an error, not a crash", async (t) => {
    const devices = new AddonDeviceFactory(() =>
      Promise.reject(new Error("run npm run build:dataplane")),
    );
    t.match(await failureOf(devices), {
      code: "io",
      message: /can't be loaded: run npm run build:dataplane/,
    });
  });

  void t.test("events of the addon arrive in our types", async (t) => {
    const publicKey = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    let emit: Parameters<NativeDataplane["openDevice"]>[1] = () => undefined;
    const devices = new AddonDeviceFactory(async () => ({
      openDevice: async (_, onEvent) => {
        emit = onEvent;
        return {
          set: () => Promise.reject(new Error("unused")),
          measured: () => [],
          stats: () => {
            throw new Error("gone");
          },
          forward: () => Promise.reject(new Error("unused")),
          close: async () => undefined,
        };
      },
    }));
    const events: DeviceEvent[] = [];
    const device = await devices.open(options, (event) => events.push(event));
    emit({ kind: "handshake", publicKey, index: 7 });
    emit({ kind: "endpoint", publicKey, endpoint: "[2001:db8::1]:4242" });
    emit({ kind: "unanswered", publicKey, forMs: 700 });
    emit({ kind: "path", path: 1, localPort: 40_001 });
    emit({ kind: "failed" });
    t.strictSame(events, [
      { kind: "handshake", publicKey, index: 7 },
      { kind: "endpoint", publicKey, endpoint: { address: "2001:db8::1", port: 4242 } },
      { kind: "unanswered", publicKey, forMs: 700 },
      { kind: "path", path: 1, localPort: 40_001 },
      { kind: "failed", code: "io", message: "the data plane gave no reason" },
    ]);
    t.throws(() => device.stats(), { code: "closed" });
  });

  void t.test(
    "the sockets of a port are found in /proc/net/udp, in any byte order of addresses",
    (t) => {
      const table = [
        "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops",
        " 1000: 00000000:CA6C 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77001 2 0000 0",
        " 1001: 0100007F:0035 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 77002 2 0000 0",
      ].join("\n");
      t.strictSame(inodesOfPort(table, 51_820), ["77001"]);
      t.strictSame(inodesOfPort(table, 53), ["77002"]);
      t.strictSame(inodesOfPort("", 53), []);
      t.end();
    },
  );
}

const options: DeviceOptions = {
  identity: { kind: "agent", agentId: must(parseAgentId(4711)) },
  privateKey: must(parsePrivateKey(new Uint8Array(32).fill(7))),
  interface: "xylem0",
  mtu: 1380,
  listenPort: 51_820,
  paths: 1,
  offload: false,
};

async function failureOf(devices: AddonDeviceFactory): Promise<unknown> {
  try {
    await devices.open(options, () => undefined);
  } catch (e) {
    if (isHostError(e)) return { code: e.code, message: e.message };
    throw e;
  }
  return null;
}

function orWithoutAddon(found: Namespace): Namespace {
  const reason = whyNoAddon();
  return reason === null || found.kind === "impossible" ? found : { kind: "impossible", reason };
}

async function fakeBench() {
  const network = new FakeNetwork();
  const names = async () =>
    [...network.print().matchAll(/^link (\S+)/gm)].map((found) => found[1] ?? "");
  return { devices: new FakeDeviceFactory(network), links: names };
}

async function links(): Promise<readonly string[]> {
  const shown = execFileSync("ip", ["-br", "link"], { encoding: "utf8" });
  return shown.split("\n").map((line) => line.split(/[ @]/)[0] ?? "");
}

function must<T>(read: Parsed<T>): T {
  if (read.ok) return read.value;
  throw new TypeError(read.problem);
}
