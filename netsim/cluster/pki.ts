/** Keys, certificates and kubeconfigs of one cluster, as files in one folder. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stringify } from "yaml";
import { Authority, serviceAccountKeys } from "./x509.ts";
import type { Identity, Subject } from "./x509.ts";

/** Who a kubeconfig speaks as: a certificate made for it, or a token. */
export type KubeUser =
  | ({ readonly kind: "certificate" } & Subject)
  | { readonly kind: "token"; readonly token: string };

export interface KubeconfigSpec {
  /** File name without extension. */
  readonly name: string;
  /** https://address:port as seen from where the file will be used. */
  readonly server: string;
  readonly user: KubeUser;
}

export interface ClusterKeys {
  readonly folder: string;
  readonly authority: Authority;
  /** Absolute path of a file in the folder. */
  readonly file: (name: string) => string;
  /** Writes NAME.crt and NAME.key. */
  readonly issue: (name: string, subject: Subject) => Promise<Identity>;
  /** Writes NAME.conf with everything inside and returns its path. */
  readonly kubeconfig: (spec: KubeconfigSpec) => Promise<string>;
}

/** The administrator of every lab cluster. */
export const administrator: KubeUser = {
  kind: "certificate",
  commonName: "admin",
  organizations: ["system:masters"],
};

/** Makes the cluster's authority and service account keys in `folder`. */
export async function openKeys(cluster: string, folder: string): Promise<ClusterKeys> {
  await mkdir(folder, { recursive: true, mode: 0o755 });
  const authority = new Authority(`${cluster}-ca`);
  const tokens = serviceAccountKeys();
  const file = (name: string): string => join(folder, name);
  const issue = async (name: string, subject: Subject): Promise<Identity> => {
    const made = authority.issue(subject);
    await writeFile(file(`${name}.crt`), made.certificate);
    await writeFile(file(`${name}.key`), made.key, { mode: 0o600 });
    return made;
  };
  const kubeconfig = async (spec: KubeconfigSpec): Promise<string> => {
    const text = kubeconfigText(cluster, authority, spec);
    await writeFile(file(`${spec.name}.conf`), text, { mode: 0o600 });
    return file(`${spec.name}.conf`);
  };
  await writeFile(file("ca.crt"), authority.certificate);
  await writeFile(file("sa.pub"), tokens.publicKey);
  await writeFile(file("sa.key"), tokens.key, { mode: 0o600 });
  return { folder, authority, file, issue, kubeconfig };
}

function kubeconfigText(cluster: string, authority: Authority, spec: KubeconfigSpec): string {
  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  return stringify({
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: cluster,
        cluster: {
          server: spec.server,
          "certificate-authority-data": base64(authority.certificate),
        },
      },
    ],
    users: [{ name: spec.name, user: credentials(authority, spec.user) }],
    contexts: [{ name: cluster, context: { cluster, user: spec.name } }],
    "current-context": cluster,
  });
}

function credentials(authority: Authority, user: KubeUser): Readonly<Record<string, string>> {
  switch (user.kind) {
    case "token":
      return { token: user.token };
    case "certificate": {
      const made = authority.issue(user);
      return {
        "client-certificate-data": Buffer.from(made.certificate).toString("base64"),
        "client-key-data": Buffer.from(made.key).toString("base64"),
      };
    }
  }
}
