/** The REST API of the allocator: check, plan, claim, release, free space, explain; the sentences are those of everywhere. */

import { parseCidrSubject } from "#src/codec/cidr-subject-codec.ts";
import { parseNetworkClaim } from "#src/codec/network-claim-codec.ts";
import type { Access } from "#src/host/rest-api/caller-review.ts";
import type { RestAnswer, RestRequest, RestRoute } from "#src/host/rest-api/rest-api-server.ts";
import type { NetworkClaim } from "#src/model/allocation.ts";
import { parseCidr } from "#src/model/cidr.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { formatTimestamp } from "#src/model/timestamp.ts";
import { planClaim } from "#src/plan/allocation/claim-plan.ts";
import type { CidrFacts } from "#src/plan/cidr-facts.ts";
import { freeSpace } from "#src/plan/cidr-free.ts";
import { relate } from "#src/plan/cidr-relation.ts";
import type { Clock } from "#src/ports/clock.ts";
import { isHostError } from "#src/ports/host-error.ts";
import type { Kube, KubeObject } from "#src/ports/kube.ts";
import { NETWORK_CLAIMS } from "#src/ports/kube-resource.ts";
import type { AllocationFacts } from "#src/reconcile/allocation-facts.ts";
import { conditionOf, heldAfter } from "#src/reconcile/allocation-status.ts";
import { placesOf } from "./network-subject.ts";
import * as schema from "./network-api-schema.ts";

export interface NetworkApiParts {
  readonly kube: Kube;
  readonly clock: Clock;
  /** What is known now. */
  readonly facts: () => AllocationFacts;
}

const GROUP = "xylem.dev";
/** Who may see what others have. */
const READ_BLOCKS: Access = { verb: "list", group: GROUP, resource: "networkblocks" };

const claimAccess =
  (verb: Access["verb"]) =>
  ({ params, body }: RestRequest): Access => {
    const { namespace = "", name = "" } = params["namespace"] === undefined ? named(body) : params;
    // RBAC knows no name of an object that is being made.
    const what = verb === "create" ? {} : { name };
    return { verb, group: GROUP, resource: "networkclaims", namespace, ...what };
  };

const named = (body: unknown): { readonly namespace?: string; readonly name?: string } => {
  const { namespace, name } = Object(body);
  return {
    ...(typeof namespace === "string" ? { namespace } : {}),
    ...(typeof name === "string" ? { name } : {}),
  };
};

/** Makes the routes. */
export const networkRoutes = (parts: NetworkApiParts): readonly RestRoute[] => [
  {
    method: "POST",
    path: "/v1alpha1/check",
    schema: schema.CHECK,
    access: () => null,
    handle: async ({ body }) => answer(200, { results: checkAll(body) }),
  },
  {
    method: "POST",
    path: "/v1alpha1/plan",
    schema: schema.PLAN,
    access: () => READ_BLOCKS,
    handle: async ({ body }) => plan(parts, body),
  },
  {
    method: "POST",
    path: "/v1alpha1/claims",
    schema: schema.CLAIM,
    access: claimAccess("create"),
    handle: ({ body }) => claim(parts, body),
  },
  {
    method: "GET",
    path: "/v1alpha1/claims/:namespace/:name",
    schema: schema.READ_CLAIM,
    access: claimAccess("get"),
    handle: ({ params }) => readClaim(parts, params),
  },
  {
    method: "DELETE",
    path: "/v1alpha1/claims/:namespace/:name",
    schema: schema.RELEASE,
    access: claimAccess("delete"),
    handle: ({ params }) => release(parts, params),
  },
  {
    method: "GET",
    path: "/v1alpha1/free",
    schema: schema.FREE,
    access: () => READ_BLOCKS,
    handle: async ({ query }) => free(parts, query),
  },
  {
    method: "POST",
    path: "/v1alpha1/explain",
    schema: schema.EXPLAIN,
    access: () => READ_BLOCKS,
    handle: async ({ body }) => explain(parts, body),
  },
];

const answer = (status: number, body: object | null): RestAnswer => ({ status, body });

const refusal = (status: number, problem: string): RestAnswer => answer(status, { problem });

const checkAll = (body: unknown): readonly object[] => {
  const { cidrs } = Object(body);
  return (Array.isArray(cidrs) ? cidrs : []).map((text: unknown) => {
    const read = parseCidr(text);
    return read.ok
      ? { cidr: read.value, ok: true }
      : {
          cidr: typeof text === "string" ? text.slice(0, 128) : null,
          ok: false,
          problem: sentenceOf(read),
          ...(read.suggestion === undefined ? {} : { suggestion: read.suggestion }),
        };
  });
};

const sentenceOf = (read: Extract<Parsed<unknown>, { ok: false }>): string =>
  read.suggestion === undefined
    ? read.problem
    : `${read.problem}; write ${quoted(read.suggestion)}`;

/** The sentence while not everything is known; null: it is. */
const notKnown = (facts: AllocationFacts): RestAnswer | null =>
  facts.unsynced.length === 0
    ? null
    : refusal(
        503,
        `nothing can be said before all ${facts.unsynced.join(" and ")} are known: wait`,
      );

/** The claim that a body describes, as if it were made now; one that is there keeps what it has. */
const claimOf = (parts: NetworkApiParts, body: unknown): Parsed<NetworkClaim> => {
  const { namespace, name, spec } = Object(body);
  const held = parts
    .facts()
    .claims.values()
    .find(({ object: { metadata } }) => metadata.namespace === namespace && metadata.name === name);
  const uid = held?.object.metadata.uid ?? "not-known-yet";
  const creationTimestamp = formatTimestamp(parts.clock.wallMs());
  return parseNetworkClaim({ metadata: { namespace, name, uid, creationTimestamp }, spec });
};

const plan = (parts: NetworkApiParts, body: unknown): RestAnswer => {
  const read = claimOf(parts, body);
  if (!read.ok) return refusal(422, read.problem);
  const facts = parts.facts();
  const missing = notKnown(facts);
  if (missing !== null) return missing;
  const verdict = planClaim({
    claim: read.value,
    ledger: facts.ledger,
    domain: null,
    unsynced: [],
  });
  const { reason, message } = conditionOf(verdict);
  return answer(200, {
    verdict: verdict.kind,
    reason,
    message,
    ranges: heldAfter(verdict).map(({ kind, cidr }) => ({ kind, cidr })),
    ...(verdict.kind === "waiting" ? { wouldFit: verdict.whatWouldFit } : {}),
  });
};

const claim = async (parts: NetworkApiParts, body: unknown): Promise<RestAnswer> => {
  const read = claimOf(parts, body);
  if (!read.ok) return refusal(422, read.problem);
  const facts = parts.facts();
  const missing = notKnown(facts);
  if (missing !== null) return missing;
  const { ledger } = facts;
  const verdict = planClaim({ claim: read.value, ledger, domain: null, unsynced: [] });
  if (verdict.kind === "refused") return refusal(409, verdict.reason);
  const { namespace, name, spec } = Object(body);
  try {
    const made = await parts.kube.create(NETWORK_CLAIMS, { metadata: { namespace, name }, spec });
    return answer(201, {
      ...shown(made),
      message: verdict.kind === "waiting" ? verdict.reason : "",
    });
  } catch (error) {
    if (!isHostError(error) || error.code !== "already-exists") throw error;
    return await again(parts, { namespace, name, spec });
  }
};

/** The same claim once more is no error: a caller that lost the answer asks again. */
const again = async (
  parts: NetworkApiParts,
  wanted: { readonly namespace: string; readonly name: string; readonly spec: unknown },
): Promise<RestAnswer> => {
  const { namespace, name, spec } = wanted;
  const held = await parts.kube.get(NETWORK_CLAIMS, { namespace, name });
  if (isPartOf(spec, held["spec"])) return answer(200, shown(held));
  return refusal(
    409,
    `NetworkClaim ${namespace}/${name} exists already and asks for something else: choose another name, or release it first`,
  );
};

/** True when all that was asked is there; the API server adds defaults. */
const isPartOf = (asked: unknown, held: unknown): boolean => {
  if (typeof asked !== "object" || asked === null) return asked === held;
  if (typeof held !== "object" || held === null) return false;
  const of = new Map(Object.entries(held));
  return Object.entries(asked).every(([key, value]) => isPartOf(value, of.get(key)));
};

const readClaim = async (
  { kube }: NetworkApiParts,
  { namespace = "", name = "" }: Readonly<Record<string, string>>,
): Promise<RestAnswer> => {
  try {
    return answer(200, shown(await kube.get(NETWORK_CLAIMS, { namespace, name })));
  } catch (error) {
    if (!isHostError(error) || error.code !== "not-found") throw error;
    return refusal(404, `NetworkClaim ${namespace}/${name} is not there`);
  }
};

const release = async (
  { kube }: NetworkApiParts,
  { namespace = "", name = "" }: Readonly<Record<string, string>>,
): Promise<RestAnswer> => {
  await kube.delete(NETWORK_CLAIMS, { namespace, name });
  return answer(204, null);
};

const shown = (object: KubeObject): object => ({
  namespace: object.metadata.namespace,
  name: object.metadata.name,
  uid: object.metadata.uid,
  spec: object["spec"],
  status: object["status"] ?? null,
});

const cidrFacts = (facts: AllocationFacts): CidrFacts => ({
  seeds: [...facts.seeds()],
  pools: [...facts.pools()],
  claims: facts.claims
    .values()
    .flatMap(({ read }) => (read.ok ? [read.value] : []))
    .toArray(),
  blocks: [...facts.blocks()],
  domains: [...facts.domains()],
});

const free = (parts: NetworkApiParts, query: Readonly<Record<string, unknown>>): RestAnswer => {
  const facts = parts.facts();
  const missing = notKnown(facts);
  if (missing !== null) return missing;
  const known = cidrFacts(facts);
  const seeds = listOf(query["seed"]);
  const unknown = seeds.find((name) => known.seeds.every((seed) => seed.name !== name));
  if (unknown !== undefined) return refusal(404, `SeedNetwork ${quoted(unknown)} is not there`);
  const vpcs = listOf(query["vpc"]);
  const pools = freeSpace(known, {
    ...(vpcs.length === 0 ? {} : { vpcs }),
    ...(seeds.length === 0 ? {} : { seeds }),
  });
  return answer(200, { pools });
};

const listOf = (value: unknown): readonly string[] =>
  (Array.isArray(value) ? value : []).filter((one) => typeof one === "string");

const explain = (parts: NetworkApiParts, body: unknown): RestAnswer => {
  const { a, b } = Object(body);
  const [left, right] = [parseCidrSubject(String(a)), parseCidrSubject(String(b))];
  if (!left.ok) return refusal(422, `a ${sentenceOf(left)}`);
  if (!right.ok) return refusal(422, `b ${sentenceOf(right)}`);
  const facts = parts.facts();
  const missing = notKnown(facts);
  if (missing !== null) return missing;
  const known = cidrFacts(facts);
  const [one, other] = [placesOf(left.value, known), placesOf(right.value, known)];
  if (!one.ok) return refusal(404, one.problem);
  if (!other.ok) return refusal(404, other.problem);
  return answer(200, relate(one.value, other.value));
};
