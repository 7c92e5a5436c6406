/** Fields that the allocator's objects share: names, lists of blocks, kinds of ranges, owners. */

import {
  RANGE_KINDS,
  type BlockGrant,
  type ClaimRef,
  type RangeKind,
} from "#src/model/allocation.ts";
import { blockName, parseVpc } from "#src/model/allocation-name.ts";
import { parseCidr, type Cidr } from "#src/model/cidr.ts";
import { CidrIndex } from "#src/model/cidr-index.ts";
import { reservedOverlap } from "#src/model/cidr-reserved.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import {
  fieldAt,
  fieldOf,
  FieldProblem,
  itemsOf,
  parseName,
  parseUid,
  parseWhole,
  take,
  type Field,
} from "./fields.ts";

export const GROUP_VERSION = "xylem.dev/v1alpha1";
/** The marks of everything that we create; the second one finds a VPC's blocks. */
export const blockLabels = (vpc: string): Record<string, string> => ({
  "app.kubernetes.io/managed-by": "xylem",
  "xylem.dev/vpc": vpc,
});

/** The longest list of blocks in one field: enough for any real network, and read in milliseconds. */
export const CIDRS_MAX = 256;

export interface PlacedCidr {
  readonly path: string;
  readonly cidr: Cidr;
}

/** Reads a list of blocks; an absent one is empty. */
export const takeCidrs = (field: Field): PlacedCidr[] =>
  itemsOf(field, { max: CIDRS_MAX }).map((item) => ({
    path: item.path,
    cidr: take(item, parseCidr),
  }));

/** Reads a list of blocks that a cluster can use. */
export const takeUsableCidrs = (field: Field): PlacedCidr[] => {
  const placed = takeCidrs(field);
  for (const { path, cidr } of placed) refuseReserved(path, cidr);
  return placed;
};

/** Loopback and the like belong to no cluster. */
export const refuseReserved = (path: string, cidr: Cidr): void => {
  const reserved = reservedOverlap(cidr);
  if (reserved === null) return;
  throw new FieldProblem(
    `${path} ${cidr} overlaps ${reserved.cidr}, which is reserved (${reserved.purpose}): choose another range`,
  );
};

/** The blocks of one object, in the order of its fields: the later one is at fault. */
export const refuseOverlapping = (placed: readonly PlacedCidr[], rule: string): void => {
  const index = new CidrIndex<string>();
  for (const { path, cidr } of placed) {
    const other = index.firstOverlap(cidr);
    if (other !== null) {
      throw new FieldProblem(`${path} ${cidr} overlaps ${other.holder} ${other.cidr}: ${rule}`);
    }
    index.add(cidr, path);
  }
};

export const parseRangeKind = (value: unknown): Parsed<RangeKind> => {
  const kind = RANGE_KINDS.find((known) => known === value);
  return kind === undefined
    ? problem(`must be ${RANGE_KINDS.join(", ")}, found ${quoted(value)}`)
    : parsed(kind);
};

const takeOwner = (field: Field): ClaimRef => ({
  namespace: take(fieldOf(field, "namespace"), parseName),
  name: take(fieldOf(field, "name"), parseName),
  uid: take(fieldOf(field, "uid"), parseUid),
});

/** Reads what a `NetworkBlock`'s spec and a domain's promise have in common. */
export const takeGrant = (field: Field): BlockGrant => ({
  cidr: take(fieldOf(field, "cidr"), parseCidr),
  vpc: take(fieldOf(field, "vpc"), parseVpc),
  kind: take(fieldOf(field, "kind"), parseRangeKind),
  owner: takeOwner(fieldOf(field, "owner")),
  domain: {
    uid: take(fieldAt(field, "domain", "uid"), parseUid),
    revision: take(
      fieldAt(field, "domain", "revision"),
      parseWhole({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    ),
  },
});

/** The fields of a grant, without what a richer object has beside them. */
export const grantSpec = ({ cidr, vpc, kind, owner, domain }: BlockGrant) => ({
  cidr,
  vpc,
  kind,
  owner: { namespace: owner.namespace, name: owner.name, uid: owner.uid },
  domain: { uid: domain.uid, revision: domain.revision },
});

/** A block's name says its CIDR and VPC; another name would take the lock away that the name is. */
export const refuseOtherName = (name: string, grant: BlockGrant): void => {
  const want = blockName(grant);
  if (name === want) return;
  throw new FieldProblem(
    `metadata.name is ${quoted(name)}, but ${grant.cidr} in VPC ${grant.vpc} must be named ${want}`,
  );
};
