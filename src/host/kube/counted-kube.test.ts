/** The counted client passes everything on, and tells of writes and failures. */

import t from "tap";
import { FakeClock } from "#src/host/fake-clock.ts";
import { FakeLog } from "#src/host/fake-log.ts";
import { CONFIG_MAPS } from "#src/ports/kube-resource.ts";
import { countKube } from "./counted-kube.ts";
import { FakeKube } from "./fake-kube.ts";

const NAME = { namespace: "a", name: "b" };

const opened = () => {
  const fake = new FakeKube({ clock: new FakeClock(), log: new FakeLog() });
  const told: string[] = [];
  const kube = countKube(fake, {
    onWrite: ({ verb, kind }) => told.push(`${verb} ${kind}`),
    onError: ({ verb, kind, code }) => told.push(`${verb} ${kind} ${code}`),
  });
  return { fake, told, kube };
};

void t.test("every write that was taken is told, reads are not", async (t) => {
  const { fake, told, kube } = opened();
  const made = await kube.create(CONFIG_MAPS, { metadata: NAME });
  await kube.get(CONFIG_MAPS, NAME);
  await kube.list(CONFIG_MAPS, { namespace: "a" });
  await kube.replace(CONFIG_MAPS, { ...made, data: { a: "1" } });
  await kube.patch(CONFIG_MAPS, NAME, { data: { a: "2" } });
  await kube.patchStatus(CONFIG_MAPS, NAME, { status: {} });
  t.match(fake.peek(CONFIG_MAPS, NAME), { data: { a: "2" } });
  await kube.delete(CONFIG_MAPS, NAME);
  t.strictSame(
    told,
    ["create", "update", "patch", "patch", "delete"].map((verb) => `${verb} ConfigMap`),
  );
});

void t.test("failures are told and thrown; absent objects and lost races are none", async (t) => {
  const { fake, told, kube } = opened();
  await t.rejects(kube.get(CONFIG_MAPS, NAME), { code: "not-found" });
  fake.failNext("create", "conflict");
  await t.rejects(kube.create(CONFIG_MAPS, { metadata: NAME }), { code: "conflict" });
  t.strictSame(told, []);
  fake.breakDown();
  await t.rejects(kube.get(CONFIG_MAPS, NAME), { code: "unreachable" });
  await t.rejects(kube.patch(CONFIG_MAPS, NAME, {}), { code: "unreachable" });
  t.strictSame(told, ["get ConfigMap unreachable", "patch ConfigMap unreachable"]);
});
