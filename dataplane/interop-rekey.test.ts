/** Our device against wireguard-go beyond the two minutes after which keys are renewed. */

import t from "tap";
import { openForeignPair, skip } from "./foreign-pair.ts";

t.test(
  "keys are renewed after two minutes and no ping is lost",
  { skip, timeout: 400_000 },
  async (t) => {
    const { pair, close } = await openForeignPair("gateway", "ipv4");
    t.teardown(close);
    pair.greet("gateway", "10.99.0.2");
    const pings = pair.startPing("gateway", "10.99.0.2", ["-c", "1350", "-i", "0.1"]);
    t.match(await pings.done, { sent: 1350, received: 1350 });
    const made = pair.gateway.events.filter((e) => e.kind === "handshake");
    t.ok(made.length >= 2, `${made.length} handshakes`);
    t.ok(
      made.every((e) => (e.index ?? 0) >>> 8 === ((4711 << 8) | 3)),
      "every session has our index",
    );
  },
);
