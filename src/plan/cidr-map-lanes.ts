/** Puts blocks that share addresses into lanes beside each other, so that none hides another. */

import { sizeOfParts } from "#src/model/cidr.ts";
import type { MapBlock } from "./cidr-map.ts";

export interface LanedBlock {
  readonly block: MapBlock;
  /** From the top, 0 first. */
  readonly lane: number;
  /** How many lanes its neighbours and it need. */
  readonly lanes: number;
}

/** More would be lines, not blocks. */
const LANES_MAX = 6;

/** Blocks must be in order. Blocks apart from all others have one lane. */
export const lanesOf = (blocks: readonly MapBlock[]): readonly LanedBlock[] => {
  const laned: LanedBlock[] = [];
  let cluster: { block: MapBlock; lane: number }[] = [];
  let ends: bigint[] = [];
  let clusterEnd = -1n;
  const flush = (): void => {
    const lanes = Math.min(Math.max(ends.length, 1), LANES_MAX);
    for (const { block, lane } of cluster) {
      laned.push({ block, lane: Math.min(lane, LANES_MAX - 1), lanes });
    }
    cluster = [];
    ends = [];
  };
  for (const block of blocks) {
    const { base } = block.parts;
    const end = base + sizeOfParts(block.parts);
    if (base >= clusterEnd) flush();
    const free = ends.findIndex((laneEnd) => laneEnd <= base);
    const lane = free === -1 ? ends.length : free;
    ends[lane] = end;
    cluster.push({ block, lane });
    if (end > clusterEnd) clusterEnd = end;
  }
  flush();
  return laned;
};
