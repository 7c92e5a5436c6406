/** `xylem manifests` as people run it, and the templates' language: what is rendered, and what is refused by file and line. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import t from "tap";
import { parseTemplate } from "./template-parser.ts";
import { renderTemplates } from "./template-renderer.ts";
import { schemaProblems } from "./values-schema.ts";

const run = (
  ...args: readonly string[]
): Promise<{ code: number; stdout: string; stderr: string }> =>
  new Promise((resolve) => {
    const argv = [join(import.meta.dirname, "main.ts"), "manifests", ...args];
    execFile(process.execPath, argv, (error, stdout, stderr) => {
      resolve({ code: typeof error?.code === "number" ? error.code : 0, stdout, stderr });
    });
  });

void t.test(
  "a seed's manifests begin with the definitions and are where they are asked to be",
  async (t) => {
    const { code, stdout } = await run("seed", "--namespace", "xylem-system");
    t.equal(code, 0);
    t.ok(stdout.indexOf("kind: CustomResourceDefinition") < stdout.indexOf("kind: ServiceAccount"));
    t.match(stdout, "namespace: xylem-system");
    t.notMatch(stdout, "{{");
    t.notMatch(stdout, "helm.sh", "nobody without Helm understands its annotations");
  },
);

void t.test("later values win, and what is not a value is named", async (t) => {
  const folder = t.testdir({
    "a.yaml": "agent: {port: 1000, logLevel: debug}\n",
    "b.yaml": "agent: {port: 2000}\n",
    "bad.yaml": "agent: {port: 70000, prot: 1}\n",
    "list.yaml": "- 1\n",
    "broken.yaml": "a: [\n",
    "empty.yaml": "",
  });
  const file = (name: string): readonly string[] => ["-f", join(folder, name)];
  const { stdout } = await run(
    "shoot",
    ...file("a.yaml"),
    ...file("b.yaml"),
    ...file("empty.yaml"),
  );
  t.match(stdout, "--port=2000");
  t.match(stdout, "--log-level=debug");
  const bad = await run("shoot", ...file("bad.yaml"));
  t.equal(bad.code, 2);
  t.equal(bad.stdout, "");
  t.match(bad.stderr, "agent.port: must be at most 65535");
  t.match(bad.stderr, /agent\.prot: there is no such value; there are image, port/u);
  for (const [name, said] of [
    ["list.yaml", "must be a map"],
    ["broken.yaml", "can't be read as YAML"],
    ["absent.yaml", "ENOENT"],
  ] as const) {
    const { code, stderr } = await run("shoot", ...file(name));
    t.equal(code, 2);
    t.match(stderr, said);
    t.match(stderr, name);
  }
});

const render = (source: string, values: unknown = {}): string | undefined =>
  renderTemplates({
    files: new Map([["a.yaml", parseTemplate("a.yaml", source)]]),
    sources: new Map([
      ["x/b.yaml", "B"],
      ["x/a.yaml", "A"],
      ["x/y/c.yaml", "C"],
    ]),
    data: { Values: values, Release: { Name: "r", Namespace: "n" }, Chart: { AppVersion: "1" } },
  }).get("a.yaml");

const RENDERED: readonly { name: string; source: string; values?: unknown; want: string }[] = [
  { name: "text and trimmed delimiters", source: "a\n  {{- 1 -}}\n b", want: "a1b" },
  { name: "a comment", source: "a{{- /* }} no */ -}}b", want: "ab" },
  { name: "a path that leads nowhere", source: "[{{ .Values.a.b }}]", want: "[]" },
  { name: "a pipeline", source: '{{ .Values.a | default "x" | quote }}', want: '"x"' },
  { name: "parentheses", source: '{{ eq (printf "%s-%s" "a" "b") "a-b" }}', want: "true" },
  {
    name: "zero is false, as in Go",
    source: "{{ if 0 }}a{{ else if 1 }}b{{ else }}c{{ end }}",
    want: "b",
  },
  { name: "an empty map is false", source: "{{ with .Values }}a{{ else }}b{{ end }}", want: "b" },
  {
    name: "a range with key and value, the root by $",
    source: "{{ range $k, $v := .Values }}{{ $k }}{{ $v }}{{ $.Release.Name }}{{ . }};{{ end }}",
    values: { a: 1, b: 2 },
    want: "a1r1;b2r2;",
  },
  {
    name: "a variable ends with its block",
    source: '{{ $a := "o" }}{{ if true }}{{ $a := "i" }}{{ $a }}{{ end }}{{ $a }}',
    want: "io",
  },
  {
    name: "a defined template",
    source: '{{ define "x" }}<{{ .y }}>{{ end }}{{ include "x" (dict "y" 1) }}',
    want: "<1>",
  },
  {
    name: "files by pattern, in order",
    source: '{{ range $p, $_ := .Files.Glob "x/*.yaml" }}{{ $.Files.Get $p }}{{ end }}',
    want: "AB",
  },
  {
    name: "YAML",
    source: "a:{{ toYaml .Values | nindent 2 }}",
    values: { b: ["c"] },
    want: "a:\n  b:\n  - c",
  },
];

for (const { name, source, values, want } of RENDERED) {
  void t.test(`a template renders ${name}`, async (t) => {
    t.equal(render(source, values), want);
  });
}

const REFUSED: readonly { name: string; source: string; want: RegExp }[] = [
  { name: "an end too many", source: "{{ end }}", want: /a\.yaml: .*ends nothing/u },
  { name: "an if without end", source: "\n{{ if 1 }}", want: /a\.yaml:2: if has no end/u },
  { name: "an unknown function", source: "{{ lookup 1 }}", want: /calls lookup/u },
  { name: "an unset variable", source: "{{ $x }}", want: /\$x, which is not set/u },
  { name: "an unclosed parenthesis", source: "{{ (eq 1 1 }}", want: /a\.yaml:1: \( without \)/u },
  { name: "an empty part", source: "{{ 1 | }}", want: /empty part/u },
];

for (const { name, source, want } of REFUSED) {
  void t.test(`a template with ${name} is refused`, async (t) => {
    t.throws(() => render(source), { message: want });
  });
}

void t.test("a keyword of JSON Schema that is not understood is no silent pass", async (t) => {
  t.throws(() => schemaProblems({ oneOf: [] }, 1), { message: /oneOf is not known here/u });
});
