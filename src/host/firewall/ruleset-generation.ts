/** The number of a machine's nftables ruleset, which grows with every change of any table (linux/netfilter/nf_tables.h). */

import { isHostError } from "#src/ports/host-error.ts";
import { RtnetlinkSocket } from "../network/netlink-socket.ts";

/** linux/netlink.h. */
const NETLINK_NETFILTER = 12;
/** NFNL_SUBSYS_NFTABLES, NFT_MSG_GETGEN. */
const GET_GENERATION = (10 << 8) | 16;
/** struct nfgenmsg: any family, version 0. */
const HEADER_BYTES = 4;
/** NFTA_GEN_ID: 32 bits in network order. */
const GENERATION_ID = 1;
/** struct nlattr: length and type, 16 bits each. */
const ATTRIBUTE_BYTES = 4;

/** In the network namespace that this process was in at the first reading. */
export class RulesetGeneration {
  #socket: RtnetlinkSocket | null = null;

  /** Null: the kernel does not say. Never throws HostError. */
  async read(): Promise<number | null> {
    try {
      this.#socket ??= new RtnetlinkSocket(NETLINK_NETFILTER);
      const body = Buffer.alloc(HEADER_BYTES);
      const answer = await this.#socket.request({ type: GET_GENERATION, flags: 0, body });
      const [first] = answer.ok ? answer.bodies : [];
      return first === undefined ? null : readGeneration(first);
    } catch (error) {
      if (!isHostError(error)) throw error;
      return null;
    }
  }
}

/** Reads the body of NFT_MSG_NEWGEN; null: there is no number in it. */
export const readGeneration = (body: Uint8Array): number | null => {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const isLittle = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;
  for (let at = HEADER_BYTES; at + ATTRIBUTE_BYTES <= body.length;) {
    const length = view.getUint16(at, isLittle);
    if (length < ATTRIBUTE_BYTES || at + length > body.length) return null;
    const type = view.getUint16(at + 2, isLittle);
    if (type === GENERATION_ID && length === ATTRIBUTE_BYTES + 4) {
      return view.getUint32(at + ATTRIBUTE_BYTES);
    }
    at += (length + 3) & ~3;
  }
  return null;
};
