/** Our device against wireguard-go: both ends begin, both families, 10,000 pings. */

import t from "tap";
import { openForeignPair, skip } from "./foreign-pair.ts";

t.test("with wireguard-go", { skip, timeout: 400_000 }, async (t) => {
  for (const outer of ["ipv4", "ipv6"] as const) {
    t.test(`our end begins over ${outer}: every one of 10,000 pings is answered`, async (t) => {
      const { pair, close } = await openForeignPair("gateway", outer);
      t.teardown(close);
      pair.greet("gateway", "10.99.0.2");
      const before = await pair.gateway.stats();
      const flood = pair.startPing("gateway", "10.99.0.2", ["-c", "10000", "-i", "0.002"]);
      const result = await flood.done;
      t.match(result, { sent: 10_000, received: 10_000 });
      if (result.received !== 10_000) t.comment(result.output, await pair.gateway.stats());
      t.match(pair.ping("gateway", "fd99::2", 3), { received: 3 });
      t.match(pair.ping("agent", "10.99.0.1", 3), { received: 3 });
      const { counters, paths } = await pair.gateway.stats();
      t.equal(counters["drop_refused"], 0);
      t.strictSame(paths, before.paths, "a peer that answers no probes makes no path suspect");
    });
  }

  t.test("the foreign end begins: its random index is answered with ours", async (t) => {
    const { pair, close } = await openForeignPair("agent", "ipv4");
    t.teardown(close);
    t.match(pair.ping("agent", "10.99.0.1", 5), { received: 5 });
    const { index = 0 } = await pair.gateway.event("handshake");
    t.equal(index >>> 16, 4711);
    t.match(pair.ping("gateway", "10.99.0.2", 5), { received: 5 });
    t.match(pair.ping("agent", "fd99::1", 5), { received: 5 });
  });
});
