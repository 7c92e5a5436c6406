import t from "tap";

import { parsePing } from "./ping.ts";

const iputils = `PING 10.0.0.1 (10.0.0.1) 56(84) bytes of data.
64 bytes from 10.0.0.1: icmp_seq=1 ttl=64 time=0.040 ms
64 bytes from 10.0.0.1: icmp_seq=2 ttl=64 time=1.50 ms
64 bytes from 10.0.0.1: icmp_seq=5 ttl=64 time=0.060 ms
64 bytes from 10.0.0.1: icmp_seq=5 ttl=64 time=9.0 ms (DUP!)
`;
const busybox = `PING 10.0.0.1 (10.0.0.1): 56 data bytes
64 bytes from 10.0.0.1: seq=0 ttl=64 time=0.040 ms
64 bytes from 10.0.0.1: seq=1 ttl=64 time=1.500 ms
64 bytes from 10.0.0.1: seq=4 ttl=64 time=0.060 ms
`;

void t.test("the output of either ping gives the same report, duplicates counted once", (t) => {
  const want = {
    sent: 6,
    received: 3,
    lost: 3,
    rttMsMin: 0.04,
    rttMsMedian: 0.06,
    rttMsMax: 1.5,
    gapMsMax: 200,
    lostSequences: [2, 3, 5],
  };
  t.same(parsePing(iputils, { sent: 6, intervalMs: 100, firstSequence: 1 }), want);
  t.same(parsePing(busybox, { sent: 6, intervalMs: 100, firstSequence: 0 }), want);
  t.end();
});

void t.test("no answer at all is a report of loss, not an error", (t) => {
  const report = parsePing("", { sent: 3, intervalMs: 50, firstSequence: 0 });
  t.match(report, { received: 0, lost: 3, gapMsMax: 150 });
  t.ok(Number.isNaN(report.rttMsMedian));
  t.end();
});
