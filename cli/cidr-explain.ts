/** `xylem cidr explain A B`: what two ranges, claims, seeds or pools are to each other, and which rule says what. */

import type { Command } from "commander";
import { parseCidrSubject, type CidrSubject } from "#src/codec/cidr-subject-codec.ts";
import type { Cidr } from "#src/model/cidr.ts";
import { parsed, problem, type Parsed } from "#src/model/parsed.ts";
import { describePlace } from "#src/plan/allocation/sentence.ts";
import { claimPlaces, seedPlaces, type CidrFacts, type RuledPlace } from "#src/plan/cidr-facts.ts";
import {
  areOfTwoFamilies,
  relate,
  type Relation,
  type RelationAnswer,
} from "#src/plan/cidr-relation.ts";
import { findOverlapping, type RuleVerdict } from "#src/plan/cidr-rules.ts";
import { readSource } from "./cidr-source.ts";
import {
  addSources,
  EXIT_FINE,
  EXIT_FOUND,
  jsonText,
  problemSentence,
  refuse,
  type CidrWorld,
  type SourceFlags,
} from "./cidr-world.ts";

const NO_FACTS: CidrFacts = { seeds: [], pools: [], claims: [], blocks: [], domains: [] };

interface Subject {
  /** As a person calls it. */
  readonly title: string;
  readonly places: readonly RuledPlace[];
  /** Who has this range, where it is only a range. */
  readonly holders: readonly string[];
}

/** Adds `explain` to `xylem cidr`. */
export const addExplain = (cidr: Command, world: CidrWorld): void => {
  addSources(cidr.command("explain"))
    .description(
      "say what A and B are to each other (equal, contains, overlaps where, disjoint), and which rule allows or forbids it",
    )
    .argument("<a>", "a CIDR, an address, claim/NAMESPACE/NAME, seed/NAME or pool/NAME")
    .argument("<b>", "the same")
    .addHelpText(
      "after",
      `
Examples:
  xylem cidr explain 10.0.0.0/8 10.250.0.0/20
  xylem cidr explain claim/shoot--lab--alpha/net seed/eu-1 --kubeconfig seed.kubeconfig
  xylem cidr explain 10.97.0.10 claim/shoot--lab--alpha/net -f claims.yaml

Exit code: 0 they are apart, or a rule allows what they share; 1 a rule forbids it, or does so for some owners; 2 bad input.`,
    )
    .action(async (a: string, b: string, flags: SourceFlags) => {
      const facts = await readFacts(flags, world);
      const left = facts.ok ? subjectOf("A", a, facts.value) : facts;
      const right = facts.ok ? subjectOf("B", b, facts.value) : facts;
      const bad = [left, right].find((read) => !read.ok);
      if (!left.ok || !right.ok) {
        refuse(world, bad?.ok === false ? problemSentence(bad) : "");
        return;
      }
      const answer = relate(left.value.places, right.value.places);
      world.out(
        flags.output === "json"
          ? jsonText({ a: subjectJson(left.value), b: subjectJson(right.value), ...answer })
          : answerText({ a: left.value, b: right.value, answer }),
      );
      world.exit(exitOf(answer.verdict));
    });
};

/** Two plain ranges need no facts. */
const readFacts = async (flags: SourceFlags, world: CidrWorld): Promise<Parsed<CidrFacts>> => {
  if (flags.filename.length === 0 && flags.kubeconfig === undefined) return parsed(NO_FACTS);
  const source = await readSource(flags, world);
  return source.ok ? parsed(source.value.facts) : source;
};

const subjectOf = (label: "A" | "B", text: string, facts: CidrFacts): Parsed<Subject> => {
  const read = parseCidrSubject(text);
  if (!read.ok) return problem(`${label} ${problemSentence(read)}`);
  const found = lookUp(read.value, facts);
  return found.ok ? found : problem(`${label} ${found.problem}`);
};

const lookUp = (subject: CidrSubject, facts: CidrFacts): Parsed<Subject> => {
  switch (subject.kind) {
    case "range":
      return parsed({
        title: subject.cidr,
        places: [rangePlace(subject.cidr, null)],
        holders: findOverlapping(subject.cidr, [
          ...facts.seeds.flatMap(seedPlaces),
          ...claimPlaces(facts),
        ]),
      });
    case "claim": {
      const { namespace, name } = subject;
      const title = `NetworkClaim ${namespace}/${name}`;
      const places = claimPlaces(facts).filter(
        ({ place: { party } }) =>
          party.kind === "claim" && party.namespace === namespace && party.name === name,
      );
      if (places.length > 0) return parsed({ title, places, holders: [] });
      const isKnown = facts.claims.some(
        (claim) => claim.namespace === namespace && claim.name === name,
      );
      return problem(
        isKnown
          ? `${title} has no range yet, and asks for none by address: see xylem cidr plan`
          : `${title} is not there: name a file that has it with -f, or its cluster with --kubeconfig`,
      );
    }
    case "seed": {
      const seed = facts.seeds.find(({ name }) => name === subject.name);
      return seed === undefined
        ? notThere("SeedNetwork", subject.name)
        : parsed({ title: `SeedNetwork ${seed.name}`, places: seedPlaces(seed), holders: [] });
    }
    case "pool": {
      const pool = facts.pools.find(({ name }) => name === subject.name);
      if (pool === undefined) return notThere("NetworkPool", subject.name);
      const title = `NetworkPool ${pool.name}`;
      return parsed({
        title,
        places: pool.cidrs.map((cidr) => ({ ...rangePlace(cidr, title), isPool: true as const })),
        holders: [],
      });
    }
  }
};

const notThere = (kind: string, name: string) =>
  problem(
    `${kind} ${name} is not there: name a file that has it with -f, or its cluster with --kubeconfig`,
  );

const rangePlace = (cidr: Cidr, label: string | null): RuledPlace => ({
  place: { cidr, party: { kind: "range", label } },
  vpc: null,
  seeds: [],
  isAdopted: false,
});

const exitOf = (verdict: RuleVerdict): number => {
  switch (verdict) {
    case "allowed":
    case "bridged":
      return EXIT_FINE;
    case "depends":
    case "forbidden":
      return EXIT_FOUND;
  }
};

const subjectJson = ({ title, places, holders }: Subject) => ({
  title,
  ranges: places.map(({ place }) => describePlace(place)),
  holders,
});

const SHOWN_COMMON_MAX = 8;

const answerText = (parts: {
  readonly a: Subject;
  readonly b: Subject;
  readonly answer: RelationAnswer;
}): string => {
  const { a, b, answer } = parts;
  const lines = [relationText(parts)];
  if (answer.relation === "overlaps") {
    const shown = answer.common.slice(0, SHOWN_COMMON_MAX);
    const more = answer.common.length - shown.length;
    lines.push(`  both have ${shown.join(", ")}${more > 0 ? ` and ${more} more` : ""}`);
  }
  lines.push(...answer.meetings.map(({ verdict, sentence }) => `  ${verdict}: ${sentence}`));
  if (answer.isCut) lines.push("  and more: only the first 100 are shown");
  lines.push(...answer.reserved.map((sentence) => `  forbidden: ${sentence}`));
  for (const { title, holders } of [a, b]) {
    lines.push(...holders.map((holder) => `  about ${title}: it overlaps ${holder}`));
  }
  return lines.join("\n");
};

const relationText = ({ a, b, answer }: Parameters<typeof answerText>[0]): string => {
  const families =
    answer.relation === "disjoint" && areOfTwoFamilies(a.places, b.places)
      ? ": one has IPv4, the other IPv6"
      : "";
  return `${relationWords(answer.relation, { a: a.title, b: b.title })}${families}`;
};

const relationWords = (
  relation: Relation,
  { a, b }: { readonly a: string; readonly b: string },
): string => {
  switch (relation) {
    case "contains":
      return `${a} contains ${b}`;
    case "disjoint":
      return `${a} and ${b} are disjoint`;
    case "equal":
      return `${a} is equal to ${b}`;
    case "inside":
      return `${a} lies inside ${b}`;
    case "overlaps":
      return `${a} overlaps ${b}`;
  }
};
