/** Proofs of a path, on loopback only: the kernel's choice of a source, and a connection that was answered. */

import { createServer, type AddressInfo } from "node:net";
import t from "tap";
import { localAddressTowards, provePath, proveRoute } from "./path-proof.ts";

/** Every address of 127/8 leads back here with its own source. */
const HERE = "127.0.0.1";

/** A TCP port on loopback with nobody behind it. */
const closedPort = async (): Promise<number> => {
  const { port, close } = await listening();
  await close();
  return port;
};

const listening = async () => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => {
    server.listen(0, HERE, resolve);
  });
  const { port } = server.address() as AddressInfo;
  const close = () => new Promise((resolve) => server.close(resolve));
  return { port, close };
};

void t.test("the kernel says which source it would use, without a packet", async (t) => {
  t.equal(await localAddressTowards(HERE), HERE);
  t.equal(await localAddressTowards("::1"), "::1");
});

void t.test("an address that can't be reached has no source", async (t) => {
  // The kernel refuses a connect to the limited broadcast address.
  t.equal(await localAddressTowards("255.255.255.255"), null);
  t.match(
    await proveRoute({ address: "255.255.255.255", sources: ["198.18.0.1"] }),
    /there is no route instead of 198\.18\.0\.1/u,
  );
});

void t.test("N51 a way that leaves with another source is told with the fix", async (t) => {
  t.equal(await proveRoute({ address: HERE, sources: [HERE] }), null);
  const wrongWay = await proveRoute({ address: HERE, sources: ["198.18.0.1", "fd00:18::1"] });
  t.equal(
    wrongWay,
    "the way to 127.0.0.1 does not lead through the tunnel (packets would leave with the source 127.0.0.1 instead of 198.18.0.1 or fd00:18::1): remove the route that is more specific than ours",
  );
});

void t.test("a connection proves the path, and so does a refusal", async (t) => {
  const { port, close } = await listening();
  const target = { address: HERE, sources: [HERE], timeoutMs: 2_000 };
  t.equal(await provePath({ ...target, port }), null);
  await close();
  t.equal(await provePath({ ...target, port: await closedPort() }), null);
});

void t.test("a wrong way is told before anything is sent", async (t) => {
  const { port, close } = await listening();
  const target = { address: HERE, port, timeoutMs: 2_000, sources: ["198.18.0.1"] };
  t.match(await provePath(target), /does not lead through the tunnel/u);
  await close();
});
