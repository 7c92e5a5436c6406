/** Where an API server is and how to speak to it; secrets inside show themselves to nobody by accident. */

import { inspect } from "node:util";

/** How a client proves who it is. */
export type KubeAuth =
  | { readonly kind: "none" }
  | { readonly kind: "token"; readonly token: Hidden }
  /** The file is read again while the process runs: bound tokens expire. */
  | { readonly kind: "token-file"; readonly path: string }
  | { readonly kind: "client-certificate"; readonly certificate: string; readonly key: Hidden };

export interface KubeCredentials {
  /** `https://host:port` and perhaps a path, without a trailing slash. */
  readonly server: string;
  /** PEM; null: the system's authorities. */
  readonly ca: string | null;
  /** The name to expect in the server's certificate; null: the host of `server`. */
  readonly tlsServerName: string | null;
  /** True only where the kubeconfig says insecure-skip-tls-verify. */
  readonly isInsecure: boolean;
  readonly auth: KubeAuth;
  /** The namespace of the context, where it names one. */
  readonly namespace: string | null;
}

/** Credentials that may change on disk while a process runs. */
export interface CredentialsSource {
  /** Where they come from, for messages: `kubeconfig /etc/seed.conf`. */
  readonly origin?: string;
  /** Throws HostError `bad-credentials`. `fresh`: the last ones were refused, so look again. */
  read(options: { readonly fresh: boolean }): Promise<KubeCredentials>;
}

/** A text that prints as `[redacted]` however it is printed. */
export class Hidden {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  /** The secret itself, for the one place that needs it. */
  reveal(): string {
    return this.#text;
  }

  toString(): string {
    return "[redacted]";
  }

  toJSON(): string {
    return "[redacted]";
  }

  [inspect.custom](): string {
    return "[redacted]";
  }
}

/** Wraps credentials that never change. */
export const fixedCredentials = (credentials: KubeCredentials): CredentialsSource => ({
  read: () => Promise.resolve(credentials),
});
