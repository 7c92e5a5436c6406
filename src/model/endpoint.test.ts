/** Tests of endpoints, ports, slots, agent ids, indices and timestamps. */

import fc from "fast-check";
import t from "tap";
import { parseAgentId } from "./agent-id.ts";
import { formatEndpoint, isEndpointEqual, parseEndpoint } from "./endpoint.ts";
import { valueOf } from "./parsed.ts";
import { packSessionIndex, unpackSessionIndex } from "./session-index.ts";
import { parseSlot, slotsUpTo } from "./slot.ts";
import { formatMicroTimestamp, formatTimestamp, parseTimestamp } from "./timestamp.ts";

for (const text of ["192.0.2.1:51820", "[2001:db8::1]:1", "[::1]:65535"]) {
  t.test(`the endpoint ${text} is read and printed without change`, async (t) => {
    const got = parseEndpoint(text);
    t.ok(got.ok);
    if (got.ok) t.equal(formatEndpoint(got.value), text);
  });
}

const refusedEndpoints = [
  "192.0.2.1",
  "192.0.2.1:0",
  "192.0.2.1:65536",
  "192.0.2.1:051820",
  "[192.0.2.1]:1",
  "2001:db8::1:51820",
  "example.com:51820",
  "[::1%lo]:1",
  "[::ffff:1.2.3.4]:1",
  " 1.2.3.4:1",
  "",
  null,
];

for (const text of refusedEndpoints) {
  t.test(`the endpoint ${JSON.stringify(text)} is refused`, async (t) =>
    t.equal(parseEndpoint(text).ok, false),
  );
}

t.test("endpoints are equal by value", async (t) => {
  const [a, b] = [valueOf(parseEndpoint("192.0.2.1:5")), valueOf(parseEndpoint("192.0.2.1:5"))];
  t.ok(isEndpointEqual(a, b));
  t.notOk(isEndpointEqual(a, { ...b, port: 6 }));
  t.notOk(isEndpointEqual(a, null));
  t.ok(isEndpointEqual(null, null));
});

t.test("agent ids are 1 to 65535 and slots 0 to 255, whole numbers only", async (t) => {
  for (const good of [1, 65535]) t.ok(parseAgentId(good).ok);
  for (const bad of [0, -1, 65536, 1.5, Number.NaN, "1", null]) t.notOk(parseAgentId(bad).ok);
  for (const good of [0, 255]) t.ok(parseSlot(good).ok);
  for (const bad of [-1, 256, 0.5, "0", undefined]) t.notOk(parseSlot(bad).ok);
  t.equal(slotsUpTo(256).length, 256);
});

t.test("an index unpacks to what was packed, and is an unsigned 32-bit number", async () => {
  const parts = fc.record({
    agentId: fc.integer({ min: 1, max: 65535 }),
    slot: fc.integer({ min: 0, max: 255 }),
    session: fc.integer({ min: 0, max: 255 }),
  });
  fc.assert(
    fc.property(parts, ({ agentId, slot, session }) => {
      const [id, number] = [parseAgentId(agentId), parseSlot(slot)];
      if (!id.ok || !number.ok) return false;
      const index = packSessionIndex({ agentId: id.value, slot: number.value, session });
      const back = unpackSessionIndex(index);
      return (
        index >= 0 &&
        index < 2 ** 32 &&
        Math.floor(index / 65536) === agentId &&
        back?.agentId === agentId &&
        back.slot === slot &&
        back.session === session
      );
    }),
  );
});

t.test("an index with agent id 0 is a foreign one", async (t) =>
  t.equal(unpackSessionIndex(0xffff), null),
);

t.test("timestamps agree with the platform's own calendar", async () => {
  fc.assert(
    fc.property(fc.integer({ min: -62_135_596_800, max: 253_402_300_799 }), (seconds) => {
      // oxlint-disable-next-line no-restricted-globals -- the platform's calendar is the oracle
      const text = new Date(seconds * 1000).toISOString().replace(".000Z", "Z");
      const read = parseTimestamp(text);
      return formatTimestamp(seconds * 1000) === text && read.ok && read.value === seconds * 1000;
    }),
    { numRuns: 2000 },
  );
});

t.test("timestamps with an offset and a fraction are read, impossible ones refused", async (t) => {
  t.same(parseTimestamp("1970-01-01T01:00:00.25+01:00"), { ok: true, value: 250 });
  const bad = [
    "2026-02-30T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01",
    "",
    5,
  ];
  for (const text of bad) t.notOk(parseTimestamp(text).ok);
});

t.test("micro timestamps have six digits, also before 1970", async (t) => {
  t.equal(formatMicroTimestamp(1_002), "1970-01-01T00:00:01.002000Z");
  t.equal(formatMicroTimestamp(-1), "1969-12-31T23:59:59.999000Z");
});
