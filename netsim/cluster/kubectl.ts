/** kubectl inside one of the lab's namespaces, and single GETs that never try again. */

import type { Namespace } from "#netsim/lab/namespace.ts";
import type { RunResult, Running } from "#netsim/lab/process.ts";
import type { Programs } from "./programs.ts";

export interface KubectlOptions {
  readonly input?: string;
  /** Default 30,000. */
  readonly timeoutMs?: number;
  /** Default true: another exit code than 0 is an error that quotes kubectl. */
  readonly check?: boolean;
}

export interface Kubectl {
  readonly kubeconfig: string;
  readonly run: (args: readonly string[], options?: KubectlOptions) => Promise<RunResult>;
  /** For what runs until it is stopped: port-forward, logs -f, proxy. */
  readonly spawn: (args: readonly string[], log: string) => Running;
  /** One GET of a path as administrator: kubectl repeats a 503 up to ten times, this does not. */
  readonly raw: (path: string, options?: KubectlOptions) => Promise<RunResult>;
}

export interface KubectlSpec {
  readonly programs: Programs;
  readonly namespace: Namespace;
  readonly kubeconfig: string;
  /** https://address:port */
  readonly server: string;
  /** Folder of ca.crt, admin.crt and admin.key. */
  readonly keys: string;
  /** kubectl keeps discovery here. */
  readonly home: string;
}

/** Binds kubectl to one namespace and one cluster. */
export function openKubectl(spec: KubectlSpec): Kubectl {
  const { programs, namespace, kubeconfig, keys } = spec;
  const program = [programs.hyperkube, "kubectl", "--kubeconfig", kubeconfig];
  const env = { HOME: spec.home, KUBECACHEDIR: `${spec.home}/kube-cache` };
  return {
    kubeconfig,
    run: (args, options = {}) =>
      namespace.run([...program, ...args], { timeoutMs: 30_000, env, ...options }),
    spawn: (args, log) => namespace.spawn([...program, ...args], { log, env }),
    raw: (path, options = {}) => {
      const timeoutMs = options.timeoutMs ?? 30_000;
      const client = [
        "-ca",
        `${keys}/ca.crt`,
        "-cert",
        `${keys}/admin.crt`,
        "-key",
        `${keys}/admin.key`,
      ];
      const argv = [
        programs.labpod,
        "get",
        "-timeout",
        `${timeoutMs}ms`,
        ...client,
        spec.server + path,
      ];
      return namespace.run(argv, { ...options, timeoutMs: timeoutMs + 2000 });
    },
  };
}

/** Waits until the API server says it is ready; the error carries its last answer. */
export async function waitUntilReady(spec: KubectlSpec, timeoutMs: number): Promise<void> {
  const { programs, namespace, keys } = spec;
  const client = [
    "-ca",
    `${keys}/ca.crt`,
    "-cert",
    `${keys}/admin.crt`,
    "-key",
    `${keys}/admin.key`,
  ];
  const argv = [programs.labpod, "get", "-until", `${timeoutMs}ms`, "-timeout", "2s", ...client];
  await namespace.run([...argv, `${spec.server}/readyz`], { timeoutMs: timeoutMs + 5000 });
}
