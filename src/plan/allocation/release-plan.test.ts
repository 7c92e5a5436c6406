/** Tests of freeing blocks: only when the owner's UID is gone for good. */

import t from "tap";
import { domainOf, heldBlock } from "./claim-samples.ts";
import { cleanedDomain, planRelease } from "./release-plan.ts";

const block = heldBlock({ cidr: "10.1.0.0/16", owner: "a" });
const other = heldBlock({ cidr: "10.2.0.0/16", owner: "b" });
const nothing = { confirm: [], clean: [], free: [] };

const facts = {
  blocks: [block, other],
  claimUids: new Set<string>(),
  isSynced: true,
  goneUids: new Set<string>(),
  domains: [domainOf({ revision: 3 })],
};

t.test("A1 nothing is freed before all claims are known", async (t) => {
  t.same(planRelease({ ...facts, isSynced: false, goneUids: new Set(["uid-a"]) }), nothing);
});

t.test("A3 a block stays while its owner's UID exists, deleted or not", async (t) => {
  t.same(planRelease({ ...facts, claimUids: new Set(["uid-a", "uid-b"]) }), nothing);
});

t.test(
  "A13 an owner that the cache lacks is read from the API server before anything is freed",
  async (t) => {
    const got = planRelease({ ...facts, claimUids: new Set(["uid-b"]) });
    t.same(got, { ...nothing, confirm: [{ namespace: "shoot--a", name: "net", uid: "uid-a" }] });
  },
);

t.test("A13 an owner with several blocks is asked for once", async (t) => {
  const second = heldBlock({ cidr: "10.3.0.0/16", owner: "a" });
  t.equal(planRelease({ ...facts, blocks: [block, second] }).confirm.length, 1);
});

t.test("A3 the block of a gone UID is freed, though a claim of the same name exists", async (t) => {
  const got = planRelease({
    ...facts,
    claimUids: new Set(["uid-b", "uid-new"]),
    goneUids: new Set(["uid-a"]),
  });
  t.same(got, { ...nothing, free: [block] });
});

t.test(
  "a block that its domain still promises is freed after the promise is taken back",
  async (t) => {
    const domain = domainOf({ revision: 3, pending: [block, other] });
    const goneUids = new Set(["uid-a"]);
    const input = { ...facts, claimUids: new Set(["uid-b"]), goneUids };
    t.same(planRelease({ ...input, domains: [domain] }), { ...nothing, clean: [domain] });
    const cleaned = cleanedDomain(domain, goneUids);
    t.same(cleaned.pending, [other]);
    t.equal(cleaned.revision, 3);
    t.same(planRelease({ ...input, domains: [cleaned] }), { ...nothing, free: [block] });
  },
);
