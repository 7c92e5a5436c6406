/** Kubeconfigs: every form is read, and a bad one is one sentence with file, field and fix. */

import { execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import t from "tap";
import { stringify } from "yaml";
import { isHostError } from "#src/ports/host-error.ts";
import { inClusterCredentials, kubeconfigFile, parseKubeconfig } from "./kubeconfig.ts";

const dir = await mkdtemp(join(tmpdir(), "xylem-kubeconfig-"));
t.teardown(() => rm(dir, { recursive: true }));

const keyFile = join(dir, "client.key");
const certificateFile = join(dir, "client.crt");
execFileSync("openssl", [
  ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
  ...["-keyout", keyFile, "-out", certificateFile, "-subj", "/CN=test", "-days", "1"],
]);

interface Parts {
  readonly cluster?: object;
  readonly user?: object;
  readonly root?: object;
}

const config = (parts: Parts = {}): string =>
  stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "c",
    clusters: [{ name: "k", cluster: { server: "https://10.0.0.1:6443/", ...parts.cluster } }],
    users: [{ name: "u", user: parts.user ?? { token: "sesame" } }],
    contexts: [{ name: "c", context: { cluster: "k", user: "u", namespace: "n" } }],
    ...parts.root,
  });

const FILE = join(dir, "config");
const parse = (text: string) => parseKubeconfig({ file: FILE, text });

void t.test(
  "a token, a token file and a client certificate are read, in file and data form",
  async (t) => {
    const token = await parse(config());
    t.match(token, {
      server: "https://10.0.0.1:6443",
      namespace: "n",
      ca: null,
      isInsecure: false,
    });
    t.equal(token.auth.kind === "token" && token.auth.token.reveal(), "sesame");
    t.match((await parse(config({ user: { tokenFile: "sub/token" } }))).auth, {
      kind: "token-file",
      path: join(dir, "sub/token"),
    });
    const files = { "client-certificate": "client.crt", "client-key": keyFile };
    const byFile = await parse(
      config({ user: files, cluster: { "certificate-authority": "client.crt" } }),
    );
    t.match(byFile.auth, { kind: "client-certificate", certificate: /BEGIN CERTIFICATE/u });
    t.match(byFile.ca, /BEGIN CERTIFICATE/u);
    const data = async (path: string) => (await readFile(path)).toString("base64");
    const user = {
      "client-certificate-data": await data(certificateFile),
      "client-key-data": await data(keyFile),
    };
    t.strictSame(JSON.stringify((await parse(config({ user }))).auth), JSON.stringify(byFile.auth));
  },
);

void t.test("S4 credentials print without their secrets", async (t) => {
  const credentials = await parse(config());
  t.notMatch(inspect(credentials, { depth: 9, showHidden: true }), "sesame");
  t.notMatch(JSON.stringify(credentials), "sesame");
  t.notMatch(String(Object(credentials.auth).token), "sesame");
});

const BAD: readonly { name: string; text: string; want: RegExp }[] = [
  { name: "no YAML", text: "a: [b: sesame", want: /is neither YAML nor JSON/u },
  { name: "empty", text: "", want: /is empty/u },
  {
    name: "no current context",
    text: config({ root: { "current-context": "" } }),
    want: /current-context is missing; name one/u,
  },
  {
    name: "a context that is not there",
    text: config({ root: { "current-context": "other" } }),
    want: /contexts has no entry named "other"/u,
  },
  {
    name: "a server that is no URL",
    text: config({ cluster: { server: "10.0.0.1:6443" } }),
    want: /clusters\[k\]\.cluster\.server "10\.0\.0\.1:6443" is no URL; write https:\/\/HOST:PORT/u,
  },
  {
    name: "a CA file that is not there",
    text: config({ cluster: { "certificate-authority": "absent.crt" } }),
    want: /clusters\[k\]\.cluster\.certificate-authority names .*absent\.crt, which can't be read/u,
  },
  {
    name: "a CA that is no certificate",
    text: config({
      cluster: {
        "certificate-authority-data": Buffer.from("-----BEGIN CERTIFICATE-----\nx").toString(
          "base64",
        ),
      },
    }),
    want: /certificate-authority holds no readable X\.509 certificate/u,
  },
  {
    name: "CA data that is no base64 of a PEM",
    text: config({ cluster: { "certificate-authority-data": "hello" } }),
    want: /certificate-authority-data is not a PEM in base64/u,
  },
  {
    name: "half a client certificate",
    text: config({ user: { "client-certificate": "client.crt" } }),
    want: /users\[u\]\.user\.client-key is missing/u,
  },
  {
    name: "a key that is none",
    text: config({
      user: {
        "client-certificate": "client.crt",
        "client-key-data": Buffer.from("-----BEGIN sesame-----").toString("base64"),
      },
    }),
    want: /users\[u\]\.user\.client-key holds no readable private key/u,
  },
  {
    name: "an exec plugin",
    text: config({ user: { exec: { command: "aws" } } }),
    want: /users\[u\]\.user\.exec needs a program that Xylem does not run; use a token/u,
  },
  {
    name: "basic authentication",
    text: config({ user: { username: "a", password: "sesame" } }),
    want: /basic authentication/u,
  },
];

for (const { name, text, want } of BAD) {
  void t.test(`a kubeconfig with ${name} is refused in one sentence`, async (t) => {
    try {
      await parse(text);
      t.fail("it was taken");
    } catch (error) {
      t.ok(isHostError(error) && error.code === "bad-credentials");
      const message = error instanceof Error ? error.message : "";
      t.match(message, want);
      t.match(message, FILE);
      t.notMatch(inspect(error), "sesame");
    }
  });
}

void t.test(
  "a kubeconfig file is read again when it changed, and a missing one says so",
  async (t) => {
    const file = join(dir, "rotating");
    await writeFile(file, config({ cluster: { server: "https://10.0.0.1:1" } }));
    const source = kubeconfigFile(file);
    const first = await source.read({ fresh: false });
    t.equal(await source.read({ fresh: false }), first, "the same object while nothing changed");
    await writeFile(file, config({ cluster: { server: "https://10.0.0.2:22" } }));
    await utimes(file, 1, 1);
    t.equal((await source.read({ fresh: false })).server, "https://10.0.0.2:22");
    await t.rejects(kubeconfigFile(join(dir, "absent")).read({ fresh: false }), {
      code: "bad-credentials",
      message: /absent can't be read \(ENOENT\); check the path/u,
    });
  },
);

void t.test(
  "in a cluster the service account's files are used, outside it says what to give",
  async (t) => {
    await writeFile(join(dir, "ca.crt"), "ca");
    await writeFile(join(dir, "namespace"), "kube-system\n");
    const env = { KUBERNETES_SERVICE_HOST: "fd00::1", KUBERNETES_SERVICE_PORT: "443" };
    t.match(await inClusterCredentials({ env, folder: dir }).read({ fresh: false }), {
      server: "https://[fd00::1]:443",
      ca: "ca",
      namespace: "kube-system",
      auth: { kind: "token-file", path: join(dir, "token") },
    });
    await t.rejects(inClusterCredentials({ env: {} }).read({ fresh: false }), {
      code: "bad-credentials",
      message: /this is no pod; give a kubeconfig file/u,
    });
  },
);
