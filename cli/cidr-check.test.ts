/** `xylem cidr check`: every row of A27, the same sentences as everywhere, standard input and its bounds. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { parseClaimSpec } from "#src/codec/network-claim-codec.ts";
import { parseCidr } from "#src/model/cidr.ts";
import { claimObject, runCidr, yamlOf } from "./cidr-samples.ts";

const folder = await mkdtemp(join(tmpdir(), "xylem-cidr-"));
t.teardown(() => rm(folder, { recursive: true }));

const refused: readonly { readonly input: string; readonly write?: string }[] = [
  { input: "010.0.0.0/8" },
  { input: "10.0.0.5/24", write: "10.0.0.0/24" },
  { input: "10/8", write: "10.0.0.0/8" },
  { input: "10.0.0.0/08", write: "10.0.0.0/8" },
  { input: "256.0.0.1/32" },
  { input: "10.0.0.0/33" },
  { input: " 10.0.0.0/8", write: "10.0.0.0/8" },
  { input: "[::1]/128", write: "::1/128" },
  { input: "1::2::3/64" },
  { input: "::ffff:10.0.0.0/104", write: "10.0.0.0/8" },
  { input: "fe80::%eth0/64", write: "fe80::/64" },
  { input: "2001:DB8::/32", write: "2001:db8::/32" },
  { input: "10.0.0.0" },
  { input: "no" },
];

for (const { input, write } of refused) {
  void t.test(
    `A27 ${JSON.stringify(input)} is refused with the sentence that objects get`,
    async (t) => {
      const read = parseCidr(input);
      t.equal(read.ok, false);
      const fix = write === undefined ? "" : `; write "${write}"`;
      const sentence = read.ok ? "" : `${read.problem}${fix}`;
      t.same(await runCidr(["check", input]), {
        out: `${sentence}\n1 of 1 is not valid and canonical\n`,
        error: "",
        code: 1,
      });
      const spec = { nodes: { ipv4: { cidr: input } } };
      const inClaim = parseClaimSpec({ vpc: "vpc-a", seeds: ["eu-1"], ...spec });
      t.equal(inClaim.ok ? "" : inClaim.problem.endsWith(sentence), true);
      const file = join(folder, "claim.yaml");
      await writeFile(file, yamlOf(claimObject("a", spec)));
      t.same(await runCidr(["plan", "-f", file]), {
        out: "",
        error: `xylem: ${file}, document 1: NetworkClaim shoot--a/net: spec.nodes.ipv4.cidr: ${sentence}\n`,
        code: 2,
      });
    },
  );
}

void t.test("canonical blocks of both families end with 0", async (t) => {
  t.same(await runCidr(["check", "10.0.0.0/8"]), {
    out: "it is valid and canonical\n",
    error: "",
    code: 0,
  });
  t.same(await runCidr(["check", "10.0.0.0/8", "::/0", "fd00::/8"]), {
    out: "all 3 are valid and canonical\n",
    error: "",
    code: 0,
  });
});

void t.test(
  "standard input has one CIDR a line, with comments and empty lines between",
  async (t) => {
    const stdin = "# nodes\n10.0.0.0/8\r\n\n 10.0.0.0/8\nfd00::/8";
    t.same(await runCidr(["check", "::/0", "-"], { stdin }), {
      out: '" 10.0.0.0/8" is not a canonical CIDR: white space is not allowed; write "10.0.0.0/8"\n1 of 4 is not valid and canonical\n',
      error: "",
      code: 1,
    });
  },
);

void t.test("-o json has every input with its problem and the canonical spelling", async (t) => {
  const said = await runCidr(["check", "-o", "json", "10.0.0.5/24", "::/0"]);
  t.equal(said.code, 1);
  t.same(JSON.parse(said.out), {
    ok: false,
    results: [
      {
        input: "10.0.0.5/24",
        ok: false,
        problem:
          '"10.0.0.5/24" is not a canonical CIDR: bits are set after the prefix; write "10.0.0.0/24"',
        suggestion: "10.0.0.0/24",
      },
      { input: "::/0", ok: true },
    ],
  });
});

void t.test("hostile sizes end with 2 and one sentence, and reading stops at once", async (t) => {
  const bytes = await runCidr(["check", "-"], { stdin: endless("10.0.0.0/8\n") });
  t.same(bytes, {
    out: "",
    error: "xylem: standard input has more than 1000000 bytes: check it in several calls\n",
    code: 2,
  });
  const entries = await runCidr(["check", "-"], { stdin: "::/0\n".repeat(100_001) });
  t.same(entries, {
    out: "",
    error: "xylem: there are more than 100000 CIDRs: check them in several calls\n",
    code: 2,
  });
  t.match(await runCidr(["check", "-"], { stdin: "\n" }), { error: /has no CIDR/, code: 2 });
  t.match(await runCidr(["check", "-", "-"]), { error: /can be read once/, code: 2 });
});

void t.test(
  "100,000 bad entries in 1 MB are refused after 10,000, and 1,000 are said",
  async (t) => {
    const said = await runCidr(["check", "-"], { stdin: "10.0.0/8\n".repeat(100_000) });
    t.equal(said.code, 1);
    t.match(
      said.out,
      /\nand 9000 more: -o json has all\n10000 of 10000 are not valid and canonical\nafter 10000 mistakes the other 90000 were not looked at\n$/,
    );
    t.equal(said.out.split("\n").length, 1004);
    const json = await runCidr(["check", "-", "-o", "json"], { stdin: "no\n".repeat(10_001) });
    t.match(JSON.parse(json.out), { ok: false, unread: 1 });
    const long = await runCidr(["check", "-"], { stdin: "1".repeat(999_999) });
    t.match(long, { out: /^"1{64}\.\.\." is not a canonical CIDR: it is too long/, code: 1 });
  },
);

async function* endless(line: string): AsyncGenerator<Uint8Array> {
  const chunk = Buffer.from(line.repeat(1000));
  for (;;) yield chunk;
}
