/** `NetworkDomain` of xylem.dev/v1alpha1: the one object of a VPC that every grant replaces (docs/decisions/cidr-revision.md). */

import type { NetworkDomain } from "#src/model/allocation.ts";
import { parseVpc } from "#src/model/allocation-name.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { blockLabels, grantSpec, GROUP_VERSION, takeGrant } from "./allocation-fields.ts";
import {
  fieldAt,
  fieldOf,
  FieldProblem,
  itemsOf,
  parseUid,
  parseWhole,
  reading,
  take,
  takeOr,
} from "./fields.ts";

const PENDING_MAX = 128;
/** Keeps a domain until its VPC has no block: without it its revisions would begin again. */
export const DOMAIN_FINALIZER = "xylem.dev/network-domain";

/** Reads a NetworkDomain; the problem names the object, the field, its value and the fix. */
export const parseNetworkDomain = (object: unknown): Parsed<NetworkDomain> =>
  reading({ kind: "NetworkDomain", object }, (root) => {
    const spec = fieldOf(root, "spec");
    const name = take(fieldAt(root, "metadata", "name"), parseVpc);
    const pending = itemsOf(fieldOf(spec, "pending"), { max: PENDING_MAX }).map(takeGrant);
    const foreign = pending.find(({ vpc }) => vpc !== name);
    if (foreign !== undefined) {
      throw new FieldProblem(
        `spec.pending has ${foreign.cidr} of VPC ${foreign.vpc}: only blocks of VPC ${name} belong here`,
      );
    }
    return {
      name,
      uid: take(fieldAt(root, "metadata", "uid"), parseUid),
      resourceVersion: take(fieldAt(root, "metadata", "resourceVersion"), parseResourceVersion),
      revision: takeOr({
        field: fieldOf(spec, "revision"),
        parse: parseWhole({ min: 0, max: Number.MAX_SAFE_INTEGER }),
        standard: 0,
      }),
      pending,
    };
  });

const parseResourceVersion = (value: unknown): Parsed<string> =>
  typeof value === "string" && /^[!-~]{1,128}$/.test(value)
    ? parsed(value)
    : problem(`must be a resource version, found ${quoted(value)}`);

/** The object to create for a VPC that has none. */
export const newDomainObject = (vpc: string) => ({
  apiVersion: GROUP_VERSION,
  kind: "NetworkDomain",
  metadata: { name: vpc, labels: blockLabels(vpc), finalizers: [DOMAIN_FINALIZER] },
  spec: { revision: 0, pending: [] },
});

/** The object to replace the one that was read with; fails with a conflict when somebody else did so first. */
export const networkDomainObject = (domain: NetworkDomain) => ({
  ...newDomainObject(domain.name),
  metadata: {
    ...newDomainObject(domain.name).metadata,
    uid: domain.uid,
    resourceVersion: domain.resourceVersion,
  },
  spec: { revision: domain.revision, pending: domain.pending.map(grantSpec) },
});
