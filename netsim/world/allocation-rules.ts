/** What must hold for allocated ranges whatever happens, judged naively from the objects themselves. */

import { parseCidr, overlaps, type Cidr } from "#src/model/cidr.ts";
import { valueOf } from "#src/model/parsed.ts";
import type { KubeObject } from "#src/ports/kube.ts";

export interface AllocationObjects {
  readonly claims: readonly KubeObject[];
  readonly blocks: readonly KubeObject[];
}

interface Held {
  readonly name: string;
  readonly cidr: Cidr;
  readonly vpc: string;
  readonly kind: string;
  readonly owner: string;
}

const heldBy = ({ blocks }: AllocationObjects): readonly Held[] => blocks.map(readHeld);

/** Blocks don't change, so each is read once. */
const read = new WeakMap<KubeObject, Held>();

const readHeld = (block: KubeObject): Held => {
  const before = read.get(block);
  if (before !== undefined) return before;
  const spec = Object(block["spec"]);
  const held = {
    name: block.metadata.name,
    cidr: valueOf(parseCidr(spec.cidr)),
    vpc: String(spec.vpc),
    kind: String(spec.kind),
    owner: String(spec.owner.uid),
  };
  read.set(block, held);
  return held;
};

const uidsOf = ({ claims }: AllocationObjects): ReadonlySet<string> =>
  new Set(claims.map(({ metadata }) => metadata.uid ?? ""));

/**
 * Says what is broken; null: nothing. A block whose owner is gone is nobody's: it may be in the way for a while, and may
 * not be at the end.
 */
export const brokenRule = (before: AllocationObjects, now: AllocationObjects): string | null =>
  freedRule(before, now) ?? overlapRule(now) ?? statusRule(now);

/** A block of a claim that is there stays. */
const freedRule = (before: AllocationObjects, now: AllocationObjects): string | null => {
  const living = uidsOf(now);
  const held = heldBy(now);
  for (const block of heldBy(before)) {
    if (!living.has(block.owner)) continue;
    const isThere = held.some(({ name, owner }) => name === block.name && owner === block.owner);
    if (!isThere) return `${block.name} was freed, but its owner ${block.owner} lives`;
  }
  return null;
};

const overlapRule = (now: AllocationObjects): string | null => {
  const living = uidsOf(now);
  const held = heldBy(now).filter(({ owner }) => living.has(owner));
  for (const [at, a] of held.entries()) {
    const b = held.slice(0, at).find((one) => one.vpc === a.vpc && overlaps(one.cidr, a.cidr));
    if (b !== undefined) return `${a.name} of ${a.owner} overlaps ${b.name} of ${b.owner}`;
    const twin = held.slice(0, at).find(({ owner, kind }) => owner === a.owner && kind === a.kind);
    if (twin !== undefined) return `${a.owner} has ${a.kind} twice: ${a.name} and ${twin.name}`;
  }
  return null;
};

/** What a claim is told that it has is its own. */
const statusRule = (now: AllocationObjects): string | null => {
  const held = heldBy(now);
  for (const claim of now.claims) {
    const names: unknown = Object(claim["status"]).blocks;
    for (const name of Array.isArray(names) ? names : []) {
      if (held.some((one) => one.name === name && one.owner === claim.metadata.uid)) continue;
      return `${claim.metadata.namespace ?? ""} is told that it has ${String(name)}, and has not`;
    }
  }
  return null;
};

/** Says what is not right once nothing happens any more; null: nothing. */
export const unsettledRule = (
  now: AllocationObjects,
  space: {
    readonly pool: readonly Cidr[];
    /** What the seed of all claims has set aside. */
    readonly forbidden: readonly Cidr[];
  },
): string | null => {
  const living = uidsOf(now);
  const held = heldBy(now);
  const orphan = held.find(({ owner }) => !living.has(owner));
  if (orphan !== undefined) return `${orphan.name} is leaked`;
  for (const claim of now.claims) {
    const mine = held.filter(({ owner }) => owner === claim.metadata.uid);
    const told = Object(claim["status"]);
    const names = mine.map(({ name }) => name).toSorted();
    if (JSON.stringify(told.blocks ?? []) !== JSON.stringify(names)) {
      return `${claim.metadata.namespace ?? ""} has ${names.join()} and is told ${String(told.blocks)}`;
    }
    const isForbidden = mine.some(({ cidr }) => space.forbidden.some((one) => overlaps(one, cidr)));
    const [condition] = Array.isArray(told.conditions) ? told.conditions : [];
    const says = `${String(Object(condition).status)} ${String(Object(condition).reason)}`;
    const right = isForbidden ? "False Overlap" : "True Allocated";
    if (mine.length > 0 && says !== right) {
      return `${claim.metadata.namespace ?? ""} has ${names.join()} and is told ${says}, not ${right}`;
    }
    if (mine.length > 0) continue;
    const free = freeFor(claim, { ...space, held });
    if (free !== null)
      return `${claim.metadata.namespace ?? ""} has nothing, though ${free} is free`;
  }
  return null;
};

/** For claims of nodes alone: a place that nobody has, tried one by one; null: none. */
const freeFor = (
  claim: KubeObject,
  world: {
    readonly held: readonly Held[];
    readonly pool: readonly Cidr[];
    readonly forbidden: readonly Cidr[];
  },
): Cidr | null => {
  const spec = Object(claim["spec"]);
  const wish = spec.nodes.ipv4;
  const places: Cidr[] =
    typeof wish.cidr === "string"
      ? [valueOf(parseCidr(wish.cidr))]
      : world.pool.flatMap((range) => placesIn(range, Number(wish.prefixLength)));
  const isFree = (place: Cidr) =>
    !world.forbidden.some((one) => overlaps(one, place)) &&
    !world.held.some((one) => one.vpc === spec.vpc && overlaps(one.cidr, place));
  return places.find(isFree) ?? null;
};

/** All places of a length in a small range of 10.0.0.0/24. */
const placesIn = (range: Cidr, length: number): Cidr[] => {
  const places: Cidr[] = [];
  for (let last = 0; last < 256; last += 2 ** (32 - length)) {
    const place = valueOf(parseCidr(`10.0.0.${last}/${length}`));
    if (overlaps(range, place)) places.push(place);
  }
  return places;
};
