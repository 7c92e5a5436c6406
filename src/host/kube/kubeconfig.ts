/** Reads kubeconfig files and the in-cluster service account (k8s.io/client-go/tools/clientcmd/api/v1). */

import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
import { parse } from "yaml";
import type { KubeErrorCode } from "#src/ports/kube.ts";
import { HostError, isHostError } from "#src/ports/host-error.ts";
import { Hidden } from "./credentials.ts";
import type { CredentialsSource, KubeAuth, KubeCredentials } from "./credentials.ts";

/** A kubeconfig is a few kilobytes; more is a mistake or an attack. */
const KUBECONFIG_BYTES_MAX = 1 << 20;
const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

type Fields = Readonly<Record<string, unknown>>;

const bad = (message: string, cause?: unknown): HostError<KubeErrorCode> =>
  new HostError("bad-credentials", message, cause === undefined ? {} : { cause });

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** One kubeconfig while it is read: its sentences name the file and the field. */
class Reading {
  readonly file: string;

  constructor(file: string) {
    this.file = file;
  }

  fail(field: string, what: string, cause?: unknown): never {
    throw bad(`Kubeconfig ${this.file}: ${field} ${what}.`, cause);
  }

  text(fields: Fields, name: string, field: string): string | null {
    const value = fields[name];
    if (value === undefined || value === null || value === "") return null;
    return typeof value === "string" ? value : this.fail(`${field}.${name}`, "must be a text");
  }

  resolve(path: string): string {
    return isAbsolute(path) ? path : join(dirname(this.file), path);
  }

  /** The `<name>-data` (base64) or `<name>` (file) form of a PEM; data wins, as in client-go. */
  async pem(fields: Fields, name: string, field: string): Promise<string | null> {
    const data = this.text(fields, `${name}-data`, field);
    if (data !== null) {
      const pem = Buffer.from(data, "base64").toString("utf8");
      if (pem.includes("-----BEGIN ")) return pem;
      return this.fail(
        `${field}.${name}-data`,
        "is not a PEM in base64; encode the PEM file again",
      );
    }
    const path = this.text(fields, name, field);
    if (path === null) return null;
    const pem = await readFile(this.resolve(path), "utf8").catch((cause: unknown) =>
      this.fail(`${field}.${name}`, `names ${this.resolve(path)}, which can't be read`, cause),
    );
    if (pem.includes("-----BEGIN ")) return pem;
    return this.fail(`${field}.${name}`, `names ${this.resolve(path)}, which is no PEM file`);
  }

  /** The entry of a named list: `clusters`, `users` or `contexts`. */
  entry(root: Fields, list: string, inner: string, name: string): Fields {
    const entries = root[list];
    if (!Array.isArray(entries)) return this.fail(list, "must be a list");
    const found: unknown = entries.find((e: unknown) => isFields(e) && e["name"] === name);
    if (!isFields(found))
      return this.fail(list, `has no entry named "${name}"; add it or fix the context`);
    const value = found[inner];
    if (value === undefined || value === null) return {};
    return isFields(value) ? value : this.fail(`${list}[${name}].${inner}`, "must be a map");
  }
}

const parseServer = (reading: Reading, text: string | null, field: string): string => {
  if (text === null) return reading.fail(`${field}.server`, "is missing; write https://HOST:PORT");
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) {
    return reading.fail(`${field}.server`, `"${text}" is no URL; write https://HOST:PORT`);
  }
  if (url.username !== "" || url.password !== "") {
    return reading.fail(`${field}.server`, "must not hold a user or password; use a token");
  }
  return text.replace(/\/+$/u, "");
};

const checkCertificates = (reading: Reading, pem: string, field: string): void => {
  try {
    void new X509Certificate(pem);
  } catch (cause) {
    reading.fail(field, "holds no readable X.509 certificate", cause);
  }
};

const parseAuth = async (reading: Reading, user: Fields, field: string): Promise<KubeAuth> => {
  for (const plugin of ["exec", "auth-provider"]) {
    if (user[plugin] !== undefined) {
      reading.fail(
        `${field}.${plugin}`,
        "needs a program that Xylem does not run; use a token, a tokenFile or a client certificate",
      );
    }
  }
  if (user["username"] !== undefined || user["password"] !== undefined) {
    reading.fail(
      `${field}.username`,
      "is basic authentication, which Kubernetes dropped; use a token",
    );
  }
  const certificate = await reading.pem(user, "client-certificate", field);
  const key = await reading.pem(user, "client-key", field);
  if ((certificate === null) !== (key === null)) {
    const missing = certificate === null ? "client-certificate" : "client-key";
    reading.fail(`${field}.${missing}`, "is missing; a client certificate needs both halves");
  }
  if (certificate !== null && key !== null) {
    checkCertificates(reading, certificate, `${field}.client-certificate`);
    try {
      createPrivateKey(key);
    } catch {
      reading.fail(`${field}.client-key`, "holds no readable private key");
    }
    return { kind: "client-certificate", certificate, key: new Hidden(key) };
  }
  const tokenFile = reading.text(user, "tokenFile", field);
  if (tokenFile !== null) return { kind: "token-file", path: reading.resolve(tokenFile) };
  const token = reading.text(user, "token", field);
  return token === null ? { kind: "none" } : { kind: "token", token: new Hidden(token) };
};

/**
 * Reads the text of a kubeconfig; relative paths start at the folder of `file`.
 * Throws HostError `bad-credentials` with one sentence that names the file, the field and the fix.
 */
export const parseKubeconfig = async (options: {
  readonly file: string;
  readonly text: string;
}): Promise<KubeCredentials> => {
  const reading = new Reading(options.file);
  let root: unknown;
  try {
    root = parse(options.text, { maxAliasCount: 10 });
  } catch {
    // The parser's message quotes the text, which may hold a token.
    throw bad(`Kubeconfig ${options.file} is neither YAML nor JSON; write it again.`);
  }
  if (!isFields(root)) throw bad(`Kubeconfig ${options.file} is empty or no map; write it again.`);
  const contextName = reading.text(root, "current-context", "kubeconfig");
  if (contextName === null) {
    return reading.fail("current-context", "is missing; name one of the contexts");
  }
  const context = reading.entry(root, "contexts", "context", contextName);
  const contextField = `contexts[${contextName}].context`;
  const clusterName = reading.text(context, "cluster", contextField);
  if (clusterName === null) return reading.fail(`${contextField}.cluster`, "is missing");
  const cluster = reading.entry(root, "clusters", "cluster", clusterName);
  const clusterField = `clusters[${clusterName}].cluster`;
  const userName = reading.text(context, "user", contextField);
  const user = userName === null ? {} : reading.entry(root, "users", "user", userName);
  if (cluster["proxy-url"] !== undefined) {
    reading.fail(
      `${clusterField}.proxy-url`,
      "is not supported; the server must be reached directly",
    );
  }
  const ca = await reading.pem(cluster, "certificate-authority", clusterField);
  if (ca !== null) checkCertificates(reading, ca, `${clusterField}.certificate-authority`);
  return {
    server: parseServer(reading, reading.text(cluster, "server", clusterField), clusterField),
    ca,
    tlsServerName: reading.text(cluster, "tls-server-name", clusterField),
    isInsecure: cluster["insecure-skip-tls-verify"] === true,
    auth: await parseAuth(reading, user, `users[${userName ?? ""}].user`),
    namespace: reading.text(context, "namespace", contextField),
  };
};

/** Credentials from a kubeconfig file, read again when the file changed: kubeconfig Secrets are rotated in place. */
export const kubeconfigFile = (file: string): CredentialsSource => {
  let last: { readonly mark: string; readonly credentials: KubeCredentials } | null = null;
  const read = async (fresh: boolean): Promise<KubeCredentials> => {
    const found = await stat(file);
    if (found.size > KUBECONFIG_BYTES_MAX) {
      throw bad(`Kubeconfig ${file} is larger than 1 MiB; is it the right file?`);
    }
    const mark = `${found.ino} ${found.size} ${found.mtimeMs}`;
    if (last !== null && !fresh && last.mark === mark) return last.credentials;
    const credentials = await parseKubeconfig({ file, text: await readFile(file, "utf8") });
    last = { mark, credentials };
    return credentials;
  };
  return {
    origin: `kubeconfig ${file}`,
    read: async ({ fresh }) => {
      try {
        return await read(fresh);
      } catch (cause) {
        if (isHostError(cause)) throw cause;
        const code = cause instanceof Error && "code" in cause ? String(cause.code) : "an error";
        throw bad(
          `Kubeconfig ${file} can't be read (${code}); check the path and its mode.`,
          cause,
        );
      }
    },
  };
};

/** Credentials of the pod's service account; `folder` is only for tests. */
export const inClusterCredentials = (options: {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly folder?: string;
}): CredentialsSource => ({
  origin: "the pod's service account",
  read: async () => {
    const folder = options.folder ?? SERVICE_ACCOUNT;
    const host = options.env["KUBERNETES_SERVICE_HOST"];
    const port = options.env["KUBERNETES_SERVICE_PORT"];
    if (host === undefined || host === "" || port === undefined || port === "") {
      throw bad(
        "KUBERNETES_SERVICE_HOST and _PORT are not set: this is no pod; give a kubeconfig file.",
      );
    }
    const read = (name: string): Promise<string> =>
      readFile(join(folder, name), "utf8").catch((cause: unknown) => {
        throw bad(
          `${join(folder, name)} can't be read: mount the service account's token into the pod.`,
          cause,
        );
      });
    return {
      server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
      ca: await read("ca.crt"),
      tlsServerName: null,
      isInsecure: false,
      auth: { kind: "token-file", path: join(folder, "token") },
      namespace: (await read("namespace").catch(() => "")).trim() || null,
    };
  },
});

/** What a program is told with --kubeconfig: that file, or without one the pod's service account. */
export const credentialsFrom = (
  file: string | null | undefined,
  env: Readonly<Record<string, string | undefined>>,
): CredentialsSource =>
  file === null || file === undefined ? inClusterCredentials({ env }) : kubeconfigFile(file);
