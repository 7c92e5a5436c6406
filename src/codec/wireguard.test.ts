/** Tests of looking at WireGuard datagrams. */

import t from "tap";
import { senderIndex, steeringIndex, wireguardMessage } from "./wireguard.ts";

const rows = [
  { name: "initiation", type: 1, length: 148, steering: 0x07060504, sender: 0x07060504 },
  { name: "response", type: 2, length: 92, steering: 0x0b0a0908, sender: 0x07060504 },
  { name: "cookie", type: 3, length: 64, steering: 0x07060504, sender: null },
  { name: "data", type: 4, length: 32, steering: 0x07060504, sender: null },
  { name: "data", type: 4, length: 1500, steering: 0x07060504, sender: null },
];

for (const { name, type, length, steering, sender } of rows) {
  t.test(`a ${name} of ${length} bytes is recognised, and its indices found`, async (t) => {
    const bytes = datagram(type, length);
    t.equal(wireguardMessage(bytes), name);
    t.equal(steeringIndex(bytes), steering);
    t.equal(senderIndex(bytes), sender);
  });
}

const foreign = [
  { title: "an empty datagram", bytes: new Uint8Array() },
  { title: "one byte", bytes: Uint8Array.of(4) },
  { title: "type 0", bytes: datagram(0, 148) },
  { title: "type 5", bytes: datagram(5, 148) },
  { title: "an initiation one byte too long", bytes: datagram(1, 149) },
  { title: "data too short", bytes: datagram(4, 31) },
  { title: "reserved bytes that are set", bytes: datagram(4, 64).with(2, 1) },
];

for (const { title, bytes } of foreign) {
  t.test(`${title} is not a WireGuard message`, async (t) => {
    t.equal(wireguardMessage(bytes), null);
    t.equal(steeringIndex(bytes), null);
    t.equal(senderIndex(bytes), null);
  });
}

/** Byte `i` is `i`, but for type and reserved bytes; a view into a larger buffer. */
function datagram(type: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length + 3).subarray(3).map((_, at) => at & 255);
  bytes.set([type, 0, 0, 0].slice(0, length));
  return bytes;
}
