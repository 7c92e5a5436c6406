/** Opens many gateways without TUN in one process, lets all begin at once, and prints when each got its first answer. */

import { connect } from "node:net";
import { openDevice, type NativeDevice } from "./index.js";

export interface Crowd {
  readonly agent: { readonly publicKey: string; readonly id: number; readonly endpoint: string };
  /** An echo server inside the tunnel. */
  readonly target: string;
  readonly gateways: readonly {
    /** Base64url. */
    readonly privateKey: string;
    readonly slot: number;
    readonly address: string;
  }[];
}

export interface CrowdReport {
  /** From the moment at which all began. */
  readonly upMs: readonly number[];
}

const crowd = JSON.parse(process.argv[2] ?? "") as Crowd;
const { agent, target } = crowd;

const open = (gateway: Crowd["gateways"][number]): Promise<NativeDevice> =>
  openDevice(
    {
      kind: "gateway",
      agentId: 0,
      slot: gateway.slot,
      privateKey: Buffer.from(gateway.privateKey, "base64url"),
      interface: null,
      addresses: [gateway.address],
      mtu: 1380,
      listenPort: 0,
      paths: 1,
      offload: true,
    },
    () => undefined,
  );

/** One connection through a gateway that sends a line and waits for it to come back; tried again when it ends early. */
const answered = (port: number): Promise<void> =>
  new Promise((resolve) => {
    const attempt = (): void => {
      const socket = connect(port, "127.0.0.1", () => socket.write("echo\nx"));
      socket.once("data", () => {
        socket.destroy();
        resolve();
      });
      socket.once("error", () => undefined);
      socket.once("close", (hadError) => hadError && attempt());
    };
    attempt();
  });

const devices = await Promise.all(crowd.gateways.map(open));
const beganMs = performance.now();
const upMs = await Promise.all(
  devices.map(async (device) => {
    const { publicKey, id: agentId, endpoint } = agent;
    const slot = crowd.gateways[devices.indexOf(device)]?.slot ?? 0;
    const peer = { publicKey, agentId, slot, endpoint, allowedIps: ["10.99.0.2/32"] };
    await device.set({ peers: [peer], steering: [] });
    const { port } = await device.forward({ listen: "127.0.0.1:0", target });
    await answered(port ?? 0);
    return performance.now() - beganMs;
  }),
);
process.stdout.write(`${JSON.stringify({ upMs } satisfies CrowdReport)}\n`);
// As a crash ends it: nothing is said to the agent.
process.exit(0);
