import { X509Certificate } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import t from "tap";
import { parse } from "yaml";
import { administrator, openKeys } from "./pki.ts";

t.test("a kubeconfig holds everything that its user needs", async (t) => {
  const keys = await openKeys("alpha", t.testdir());
  const server = "https://203.0.113.2:6443";
  const file = await keys.kubeconfig({ name: "admin", server, user: administrator });
  const config = parse(await readFile(file, "utf8"));
  t.equal(config.clusters[0].cluster.server, server);
  const pem = Buffer.from(config.users[0].user["client-certificate-data"], "base64");
  const certificate = new X509Certificate(pem);
  t.equal(certificate.subject, "O=system:masters\nCN=admin");
  t.ok(certificate.checkIssued(new X509Certificate(keys.authority.certificate)));
  t.equal((await stat(file)).mode & 0o777, 0o600);
});

t.test("a kubeconfig with a token holds no key", async (t) => {
  const keys = await openKeys("alpha", t.testdir());
  const user = { kind: "token", token: "a.b.c" } as const;
  const file = await keys.kubeconfig({ name: "agent", server: "https://127.0.0.1:6443", user });
  const config = parse(await readFile(file, "utf8"));
  t.strictSame(config.users[0].user, { token: "a.b.c" });
});
