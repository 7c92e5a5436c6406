import t from "tap";
import { LastPlan } from "./last-plan.ts";

interface Facts {
  readonly name: string;
  readonly relay: string | null;
  readonly nodes: readonly string[];
  readonly tunnel: { readonly mtu: number };
}

void t.test("equal facts give the very same plan, and planning runs once", async (t) => {
  let runs = 0;
  const plans = new LastPlan((facts: Facts) => {
    runs += 1;
    return { nodes: facts.nodes.length };
  });
  const nodes = ["a"];
  const facts = { name: "x", relay: null, nodes, tunnel: { mtu: 1380 } };
  const first = plans.of(facts);
  t.equal(plans.of({ ...facts, tunnel: { mtu: 1380 } }), first, "small objects by their content");
  t.equal(plans.of({ ...facts, nodes: ["a"] }), first, "short arrays by their content");
  t.equal(runs, 1);
});

void t.test("any fact that differs is planned anew", async (t) => {
  const plans = new LastPlan((facts: Facts) => ({ ...facts }));
  const facts: Facts = { name: "x", relay: null, nodes: ["a"], tunnel: { mtu: 1380 } };
  const changes: readonly Partial<Facts>[] = [
    { name: "y" },
    { relay: "node1" },
    { nodes: ["b"] },
    { nodes: [] },
    { tunnel: { mtu: 1400 } },
  ];
  for (const change of changes) {
    const before = plans.of(facts);
    t.not(plans.of({ ...facts, ...change }), before, Object.keys(change).join());
  }
});

void t.test(
  "a long array is told by who it is, so that nobody reads a thousand nodes to find them equal",
  async (t) => {
    let runs = 0;
    const plans = new LastPlan((facts: Facts) => {
      runs += 1;
      return facts;
    });
    const nodes = Array.from({ length: 1000 }, (_, n) => `node${n}`);
    const facts: Facts = { name: "x", relay: null, nodes, tunnel: { mtu: 1380 } };
    plans.of(facts);
    plans.of({ ...facts });
    t.equal(runs, 1);
    plans.of({ ...facts, nodes: [...nodes] });
    t.equal(runs, 2);
  },
);
