/** Hostile sizes through every entry for address ranges: each gets a bounded, fast refusal. */

import type { Test } from "tap";
import { realClock } from "#src/host/clock.ts";
import { NETWORK_CLAIMS, SEED_NETWORKS } from "#src/ports/kube-resource.ts";
import { seedSample } from "#src/reconcile/allocation-samples.ts";
import { runCidr } from "../../cli/cidr-samples.ts";
import { applySchemas, eventually, refusalOf, spelled, type Entries } from "./cidr-server.ts";

/** What a refusal of hostile input may take: seconds on a slow machine, not minutes. */
const REFUSAL_MS_MAX = 10_000;

interface HostileCase {
  readonly name: string;
  readonly want: RegExp;
  readonly attempt: () => Promise<unknown>;
}

const cidrs: readonly string[] = Array.from(
  { length: 100_000 },
  (_, at) => `10.${at >> 8}.${at & 255}.0/24`,
);
const hugeSeed = seedSample("huge", { nodes: cidrs }).object;
const hugeClaim = claimWith(cidrs);

function claimWith(cidr: unknown) {
  const { object } = spelled("10.0.0.0/8");
  return { ...object, spec: { ...Object(object["spec"]), nodes: { ipv4: { cidr } } } };
}

const byCommand = (): readonly HostileCase[] => {
  const check = (stdin: string) => runCidr(["check", "-"], { stdin });
  return [
    {
      name: "CLI, 90,000 mistakes",
      want: /80000 were not looked at/u,
      attempt: async () => (await check("10.0.0.5/8\n".repeat(90_000))).out,
    },
    {
      name: "CLI, 150,000 entries",
      want: /more than 100000 CIDRs/u,
      attempt: async () => (await check("::/0\n".repeat(150_000))).error,
    },
    {
      name: "CLI, more than 1 MB",
      want: /more than 1000000 bytes/u,
      attempt: async () => (await check(cidrs.join("\n"))).error,
    },
  ];
};

const byRest = ({ call }: Entries): readonly HostileCase[] => {
  const problemOf = async (path: string, body: unknown): Promise<unknown> =>
    Object((await call("POST", path, body)).body).problem;
  const plan = (cidr: unknown) =>
    problemOf("plan", { namespace: "a", name: "b", spec: claimWith(cidr).spec });
  return [
    {
      name: "REST, more than 1 MiB",
      want: /larger than 1048576 bytes/u,
      attempt: () => problemOf("check", { cidrs }),
    },
    {
      name: "REST, 50,000 CIDRs in a check",
      want: /10000/u,
      attempt: () => problemOf("check", { cidrs: cidrs.slice(0, 50_000) }),
    },
    {
      name: "REST, 50,000 CIDRs for one",
      want: /must be text, found a list/u,
      attempt: () => plan(cidrs.slice(0, 50_000)),
    },
    {
      name: "REST, a CIDR of 1 MB",
      want: /it is too long/u,
      attempt: () => plan("1".repeat(1_000_000)),
    },
  ];
};

const bySchema = ({ kube }: Entries): readonly HostileCase[] => [
  {
    name: "schema, 100,000 CIDRs for one",
    want: /must be of type string/u,
    attempt: () => refusalOf(kube.create(NETWORK_CLAIMS, hugeClaim)),
  },
  {
    name: "schema, 100,000 CIDRs in a list",
    want: /must have at most 256 items/u,
    attempt: () => refusalOf(kube.create(SEED_NETWORKS, hugeSeed)),
  },
  {
    name: "schema, a CIDR of 1 MB",
    want: /may not be more than 64 bytes|Too long/u,
    attempt: () => refusalOf(kube.create(NETWORK_CLAIMS, claimWith("1".repeat(1_000_000)))),
  },
];

/** Tries all of them; leaves lax schemas behind. */
export const refuseHostileSizes = async (t: Test, entries: Entries): Promise<void> => {
  const { kube } = entries;
  const timed = async (attempt: () => Promise<unknown>) => {
    const startMs = realClock.nowMs();
    const said = String(await attempt());
    return { said, tookMs: realClock.nowMs() - startMs };
  };
  for (const { name, want, attempt } of [
    ...byCommand(),
    ...byRest(entries),
    ...bySchema(entries),
  ]) {
    const { said, tookMs } = await timed(attempt);
    t.match(said, want, name);
    t.ok(tookMs < REFUSAL_MS_MAX, `${name}: ${Math.round(tookMs)} ms`);
  }
  await applySchemas(kube, { isLax: true });
  const byWebhook = await eventually(async () => {
    const answer = await timed(() => refusalOf(kube.create(SEED_NETWORKS, hugeSeed)));
    if (answer.said.includes("must have at most")) throw new Error(answer.said);
    return answer;
  });
  t.match(byWebhook.said, /allocation\.xylem\.dev.*spec\.nodes has 100000 items: at most 256/u);
  t.ok(byWebhook.tookMs < REFUSAL_MS_MAX, `webhook: ${Math.round(byWebhook.tookMs)} ms`);
};
