/**
 * What the index of blocks costs as it grows: overlap, allocation, insertion and removal.
 *   node netsim/bench/cidr-bench.ts
 */

import { cidrParts, cidrFromParts, type Cidr } from "#src/model/cidr.ts";
import { pieces } from "#src/model/cidr-blocks.ts";
import { CidrIndex } from "#src/model/cidr-index.ts";
import { rowOf, type Row } from "./report.ts";

const sizes = [1_000, 10_000, 100_000, 1_000_000];
/** The size that goals are set for. */
const goalSize = 100_000;
const overlapGoalUs = 10;
const allocationGoalUs = 50;
const callsPerSample = 2_000;
const samples = 9;

interface Pool {
  readonly name: string;
  readonly within: Cidr;
  /** Prefix length of the blocks in it; the pool has room for the largest size. */
  readonly length: number;
}

const pools: readonly Pool[] = [
  { name: "IPv4", within: "10.0.0.0/8" as Cidr, length: 29 },
  { name: "IPv6", within: "fd00::/40" as Cidr, length: 64 },
];

/** Measures every figure at every size; the numbers are microseconds a call. */
export const cidrRows = async (): Promise<Row[]> =>
  pools.flatMap((pool) => sizes.flatMap((size) => rowsOf(pool, size)));

const rowsOf = (pool: Pool, size: number): Row[] => {
  const blocks = pieces(pool.within, pool.length).take(size).toArray();
  const index = new CidrIndex<number>();
  const fillUs = microsecondsOf(() => {
    for (const [at, block] of blocks.entries()) index.add(block, at);
  }, size);
  // Every fifth place is a gap, as after years of releases; the free ones alternate with held ones on every level.
  const gaps = blocks.filter((_, at) => at % 5 === 3);
  const removeUs = microsecondsOf(() => {
    for (const gap of gaps) index.remove(gap, blockNumber(pool, gap));
  }, gaps.length);
  for (const [at, gap] of gaps.entries()) if (at % 2 === 0) index.add(gap, at);
  const probes = probesOf(blocks);
  const goals = size === goalSize;
  const figure = (text: string) => `${text}, ${size.toLocaleString("en")} ${pool.name} blocks`;
  return [
    rowOf({
      figure: figure("overlap of a range"),
      unit: "us",
      values: sampled(() => {
        for (const probe of probes) index.firstOverlap(probe);
      }, probes.length),
      ...(goals ? { goal: overlapGoalUs } : {}),
    }),
    rowOf({
      figure: figure("allocation of the next block"),
      unit: "us",
      values: sampled(() => allocate(index, pool), allocationsIn(size)),
      ...(goals ? { goal: allocationGoalUs } : {}),
    }),
    rowOf({ figure: figure("insertion"), unit: "us", values: [fillUs] }),
    rowOf({ figure: figure("removal"), unit: "us", values: [removeUs] }),
  ];
};

const allocationsIn = (size: number): number => Math.min(size / 20, callsPerSample);

/** Takes blocks as an allocator does, looking and adding, then gives them back, which is not counted twice. */
const allocate = (index: CidrIndex<number>, pool: Pool): void => {
  const taken: Cidr[] = [];
  for (let count = allocationsIn(cappedSize(index)); count > 0; count -= 1) {
    const block = index.firstFree({ within: pool.within, length: pool.length });
    if (block === null) throw new Error(`${pool.within} is full`);
    index.add(block, -1);
    taken.push(block);
  }
  for (const block of taken) index.remove(block, -1);
};

/** The size that the pool was made for: a tenth of its blocks were taken out again. */
const cappedSize = (index: CidrIndex<number>): number => Math.round(index.size / 0.9);

const blockNumber = (pool: Pool, block: Cidr): number => {
  const { base, family } = cidrParts(block);
  const shift = BigInt((family === 4 ? 32 : 128) - pool.length);
  return Number((base - cidrParts(pool.within).base) >> shift);
};

/** Held blocks, larger and smaller ranges, in an order that the cache can't guess. */
const probesOf = (blocks: readonly Cidr[]): Cidr[] =>
  Array.from({ length: callsPerSample }, (_, at) => {
    const block = blocks[(at * 7_919) % blocks.length] ?? ("10.0.0.0/8" as Cidr);
    const parts = cidrParts(block);
    return cidrFromParts({ ...parts, length: parts.length + ((at % 4) - 1) });
  });

const sampled = (run: () => void, calls: number): number[] => {
  run();
  return Array.from({ length: samples }, () => microsecondsOf(run, calls));
};

const microsecondsOf = (run: () => void, calls: number): number => {
  const start = performance.now();
  run();
  return ((performance.now() - start) * 1_000) / calls;
};

if (import.meta.main) {
  for (const row of await cidrRows()) {
    const goal =
      row.goal === undefined
        ? ""
        : ` (at most ${row.goal}: ${row.isMet === true ? "met" : "MISSED"})`;
    process.stdout.write(`${row.figure}: ${row.xylem} ${row.unit}${goal}\n`);
  }
}
