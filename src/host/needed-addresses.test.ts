/** Addresses that a process can't be without, from kubeconfigs and resolv.conf. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { HostError } from "#src/ports/host-error.ts";
import { fixedCredentials, type CredentialsSource } from "./kube/credentials.ts";
import { neededAddresses } from "./needed-addresses.ts";

const folder = await mkdtemp(join(tmpdir(), "xylem-needed-"));
t.teardown(() => rm(folder, { recursive: true }));

const at = (server: string): CredentialsSource =>
  fixedCredentials({
    server,
    ca: null,
    tlsServerName: null,
    isInsecure: false,
    auth: { kind: "none" },
    namespace: null,
  });

const broken: CredentialsSource = {
  read: () => Promise.reject(new HostError("bad-credentials", "no such file")),
};

void t.test(
  "API servers by address and three DNS servers; names and loopback are left out",
  async (t) => {
    const resolvConf = join(folder, "resolv.conf");
    await writeFile(
      resolvConf,
      [
        "search svc.cluster.local",
        "nameserver 10.96.0.10",
        "nameserver 127.0.0.53",
        "nameserver fd00::10",
        "nameserver 10.96.0.11",
      ].join("\n"),
    );
    const credentials = [
      at("https://10.96.0.1:443"),
      at("https://127.0.0.1:6443"),
      at("https://[fd00::1]:6443"),
      at("https://kube-apiserver:443"),
      at("https://10.96.0.1:443"),
      broken,
    ];
    t.same(await neededAddresses({ credentials, resolvConf }), [
      "10.96.0.1",
      "fd00::1",
      "10.96.0.10",
      "fd00::10",
    ]);
  },
);

void t.test("without any file there is nothing, and no failure", async (t) => {
  const resolvConf = join(folder, "absent");
  t.same(await neededAddresses({ credentials: [broken], resolvConf }), []);
});
