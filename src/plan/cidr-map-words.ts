/** Numbers of addresses as a person reads them. */

/** As many as IPv4 has: more digits nobody reads. */
const EXACT_MAX = 1n << 32n;

/** Exact up to 2^32, then as a power of two: `16,672,768`, `2^64`, `~2^64.58`. */
export const countText = (count: bigint): string => {
  if (count <= EXACT_MAX) return String(count).replace(/\B(?=([0-9]{3})+$)/g, ",");
  const bits = count.toString(2).length - 1;
  if (count === 1n << BigInt(bits)) return `2^${bits}`;
  const rest = Number((count * 1024n) >> BigInt(bits)) / 1024;
  const exponent = (bits + Math.log2(rest)).toFixed(2);
  return `~2^${exponent.replace(/\.?0+$/, "")}`;
};

/** Never rounds to 0 % or 100 % what is neither. */
export const percentText = (part: bigint, whole: bigint): string => {
  if (whole === 0n || part === 0n) return "0 %";
  if (part === whole) return "100 %";
  const tenths = Number((part * 1000n) / whole);
  if (tenths === 0) return "under 0.1 %";
  if (tenths === 999) return "over 99.9 %";
  return `${(tenths / 10).toFixed(1)} %`;
};
