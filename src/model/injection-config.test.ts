/** The injector's options are checked at start, each with a sentence that names it. */

import t from "tap";
import { type InjectionOptions, parseInjectionOptions } from "./injection-config.ts";

const GOOD: InjectionOptions = { image: "registry.example:5000/a/gw:0.1.0", ownNamespace: "xylem" };

const bad: readonly {
  readonly name: string;
  readonly change: InjectionOptions;
  readonly says: RegExp;
}[] = [
  { name: "no image", change: { image: undefined }, says: /^image: .*missing/ },
  { name: "an image with a blank", change: { image: "gw:1 2" }, says: /^image: / },
  {
    name: "an image without a version",
    change: { image: "a.example/gw" },
    says: /no tag and no digest/,
  },
  {
    name: "a registry port that is no tag",
    change: { image: "a.example:5000/gw" },
    says: /no tag/,
  },
  { name: "no namespace", change: { ownNamespace: undefined }, says: /^own namespace/ },
  { name: "a namespace in capitals", change: { ownNamespace: "Xylem" }, says: /found "Xylem"/ },
  { name: "a quantity that is none", change: { memoryRequest: "64 Mi" }, says: /^memory request/ },
  { name: "an empty quantity", change: { cpuRequest: "" }, says: /^cpu request/ },
  { name: "a quantity of zero", change: { cpuRequest: "0m" }, says: /^cpu request: .*above zero/ },
  {
    name: "a limit below its request",
    change: { memoryLimit: "32Mi" },
    says: /less than the request of 64Mi/,
  },
  {
    name: "a limit in another unit below its request",
    change: { cpuRequest: "1.5", cpuLimit: "1400m" },
    says: /^cpu limit/,
  },
  { name: "port 0", change: { statusPort: 0 }, says: /^status port/ },
  { name: "a broken port", change: { statusPort: Number.NaN }, says: /^status port/ },
  { name: "nine paths", change: { paths: 9 }, says: /^paths: .*1 to 8/ },
  {
    name: "a pull policy in small letters",
    change: { imagePullPolicy: "always" },
    says: /Always, IfNotPresent, Never/,
  },
  { name: "an unknown log level", change: { logLevel: "loud" }, says: /^log level/ },
  {
    name: "an unknown Pod Security level",
    change: { podSecurityDefault: "none" },
    says: /^pod security/,
  },
];

for (const { name, change, says } of bad) {
  void t.test(`I38 ${name} is refused at start`, async (t) => {
    t.match(parseInjectionOptions({ ...GOOD, ...change }), { ok: false, problem: says });
  });
}

void t.test("what is left out has a default, and a digest is a version", async (t) => {
  const image = `registry.example/gw@sha256:${"a".repeat(64)}`;
  t.match(parseInjectionOptions({ ...GOOD, image }), {
    ok: true,
    value: {
      image,
      imagePullPolicy: "IfNotPresent",
      requests: { cpu: "10m", memory: "64Mi" },
      limits: { memory: "256Mi" },
      statusPort: 9446,
      paths: 4,
      podSecurityDefault: "privileged",
    },
  });
});
