/** What tests of `xylem cidr` share: a world without a terminal, and networks small and large. */

import { stringify } from "yaml";
import type { Kube } from "#src/ports/kube.ts";
import { cidrCommand } from "./cidr.ts";

export interface Said {
  readonly out: string;
  readonly error: string;
  readonly code: number;
}

/** Runs `xylem cidr` in this process. */
export const runCidr = async (
  args: readonly string[],
  given: {
    readonly stdin?: string | AsyncIterable<Uint8Array>;
    readonly kube?: Kube;
    readonly columns?: number;
  } = {},
): Promise<Said> => {
  const said = { out: "", error: "", code: 0 };
  const { stdin = "", kube } = given;
  const command = cidrCommand({
    out: (text) => void (said.out += `${text}\n`),
    error: (text) => void (said.error += `${text}\n`),
    exit: (code) => void (said.code = code),
    stdin: () => (typeof stdin === "string" ? bytesOf(stdin) : stdin),
    columns: () => given.columns ?? 80,
    connect: () => {
      if (kube === undefined) throw new Error("this test has no cluster");
      return kube;
    },
  });
  await command.parseAsync(args, { from: "user" });
  return said;
};

async function* bytesOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

export const yamlOf = (...objects: readonly object[]): string =>
  objects.map((object) => stringify(object)).join("---\n");

const XYLEM = { apiVersion: "xylem.dev/v1alpha1" } as const;

export const seedObject = (name: string, spec: object = {}) => ({
  ...XYLEM,
  kind: "SeedNetwork",
  metadata: { name },
  spec: {
    nodes: ["10.240.0.0/16"],
    pods: ["10.241.0.0/17"],
    services: ["10.242.0.0/18"],
    ...spec,
  },
});

export const poolObject = (name: string, cidrs: readonly string[], spec: object = {}) => ({
  ...XYLEM,
  kind: "NetworkPool",
  metadata: { name },
  spec: { cidrs, ...spec },
});

export const claimObject = (name: string, spec: object, metadata: object = {}) => ({
  ...XYLEM,
  kind: "NetworkClaim",
  metadata: { namespace: `shoot--${name}`, name: "net", ...metadata },
  spec: { vpc: "vpc-a", seeds: ["eu-1"], ...spec },
});

export const blockObject = (options: {
  readonly name: string;
  readonly cidr: string;
  readonly owner: string;
  readonly kind?: string;
  readonly vpc?: string;
}) => ({
  ...XYLEM,
  kind: "NetworkBlock",
  metadata: { name: options.name, uid: `uid-of-${options.name}` },
  spec: {
    cidr: options.cidr,
    vpc: options.vpc ?? "vpc-a",
    kind: options.kind ?? "nodes",
    owner: { namespace: `shoot--${options.owner}`, name: "net", uid: `uid-${options.owner}` },
    domain: { uid: "uid-domain", revision: 1 },
  },
});

/** One seed, one pool, a claim by address and one that collides with it. */
export const fewObjects: readonly object[] = [
  seedObject("eu-1"),
  poolObject("main", ["10.0.0.0/8", "fd00:10::/32"]),
  claimObject("a", { services: { ipv4: { cidr: "10.97.0.0/22" } } }),
  claimObject("b", { nodes: { ipv4: { cidr: "10.97.2.0/24" } } }),
];

/** About 300 blocks: 96 shoots, two seeds, two collisions. */
export const manyObjects = (): readonly object[] => [
  seedObject("eu-1", { pods: ["10.241.0.0/16"] }),
  seedObject("eu-2", {
    nodes: ["10.243.0.0/16"],
    pods: ["10.244.0.0/15"],
    services: ["10.246.0.0/17"],
    transit: ["198.18.2.0/23"],
    mapped: ["100.64.0.0/14"],
  }),
  poolObject("main", ["10.0.0.0/9", "fd00:10::/32"]),
  ...Array.from({ length: 96 }, (_, at) =>
    claimObject(`lab--s${at}`, {
      seeds: at % 2 === 1 ? ["eu-1", "eu-2"] : ["eu-1"],
      nodes: { ipv4: { cidr: at === 40 ? "10.39.128.0/21" : `10.${at}.128.0/20` } },
      pods: {
        ipv4: { cidr: `10.${at}.0.0/17` },
        ...(at > 0 && at < 8 ? { ipv6: { cidr: `fd00:10:0:${(at << 8).toString(16)}::/56` } } : {}),
      },
      services: { ipv4: { cidr: at === 50 ? "10.241.128.0/24" : `10.${at}.160.0/21` } },
    }),
  ),
];
