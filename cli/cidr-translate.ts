/** `xylem cidr translate ADDRESS`: what a shoot's address is dialed as, and whose a dialed one is. */

import type { Command } from "commander";
import { parseTunnelMaps } from "#src/codec/address-map-fields.ts";
import { parseAddressMaps } from "#src/codec/address-maps-codec.ts";
import type { StoredMap } from "#src/model/address-map.ts";
import { parseIp, type IpAddress } from "#src/model/ip.ts";
import { type Parsed, parsed, problem } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import { translate, type Translation } from "#src/plan/address-translation.ts";
import { readMaps } from "./cidr-live.ts";
import { readFiles } from "./cidr-source.ts";
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
import type { PlacedObject } from "./policy-manifests.ts";

interface TranslateFlags extends SourceFlags {
  readonly tunnel?: string;
}

interface Answer {
  readonly address: IpAddress;
  readonly translations: readonly Translation[];
}

/** Adds `translate` to `xylem cidr`. */
export const addTranslate = (cidr: Command, world: CidrWorld): void => {
  addSources(cidr.command("translate"))
    .description(
      "say what a shoot's address is dialed as from its seed, and which shoot's address a dialed one stands for",
    )
    .argument("<address...>", "real or mapped addresses, IPv4 or IPv6")
    .option("--tunnel <namespace/name>", "only of this Tunnel")
    .addHelpText(
      "after",
      `
Reads AddressMaps, or Tunnels with status.addressMaps, from files or a seed. Several shoots may have one real address;
a mapped address stands for one address of one shoot.

Examples:
  xylem cidr translate 10.250.1.11 --kubeconfig seed.kubeconfig
  xylem cidr translate 10.64.1.11 fd99::7 -f maps.yaml
  xylem cidr translate 10.250.1.11 --tunnel shoot--lab--alpha/alpha --kubeconfig seed.kubeconfig -o json

Exit code: 0 each has a translation, 1 one has none, 2 bad input.`,
    )
    .action(async (texts: readonly string[], flags: TranslateFlags) => {
      const addresses = readAddresses(texts);
      const entries = addresses.ok ? await readEntries(flags, world) : addresses;
      if (!addresses.ok || !entries.ok) {
        const bad = [addresses, entries].find((read) => !read.ok);
        refuse(world, bad?.ok === false ? problemSentence(bad) : "");
        return;
      }
      const answers = addresses.value.map((address) => ({
        address,
        translations: translate(entries.value, address),
      }));
      world.out(
        flags.output === "json" ? jsonText({ answers }) : answers.map(answerText).join("\n"),
      );
      const isWhole = answers.every(({ translations }) => translations.length > 0);
      world.exit(isWhole ? EXIT_FINE : EXIT_FOUND);
    });
};

const readAddresses = (texts: readonly string[]): Parsed<readonly IpAddress[]> => {
  const addresses: IpAddress[] = [];
  for (const text of texts) {
    const read = parseIp(text);
    if (!read.ok) return read;
    addresses.push(read.value);
  }
  return parsed(addresses);
};

const readEntries = async (
  flags: TranslateFlags,
  world: CidrWorld,
): Promise<Parsed<readonly StoredMap[]>> => {
  const { filename, kubeconfig, tunnel } = flags;
  if (tunnel !== undefined && !/^[^/]+\/[^/]+$/.test(tunnel)) {
    return problem(`--tunnel ${quoted(tunnel)} names no Tunnel: write NAMESPACE/NAME`);
  }
  if (filename.length === 0 && kubeconfig === undefined) {
    return problem(
      "say where the address maps are: -f FILE (AddressMaps or Tunnels), --kubeconfig FILE (a seed) or both",
    );
  }
  const inFiles = await readFiles(filename, world);
  if (!inFiles.ok) return inFiles;
  const live = kubeconfig === undefined ? parsed([]) : await readMaps(world.connect(kubeconfig));
  if (!live.ok) return live;
  const all = entriesOf([...inFiles.value, ...live.value]);
  return !all.ok || tunnel === undefined
    ? all
    : parsed(all.value.filter((entry) => nameOf(entry) === tunnel));
};

/** An AddressMaps and the Tunnels that it is about say the same twice. */
const entriesOf = (placed: readonly PlacedObject[]): Parsed<readonly StoredMap[]> => {
  const entries = new Map<string, StoredMap>();
  for (const { object, place } of placed) {
    const read = readObject(object);
    if (!read.ok) return problem(`${place}: ${read.problem}`);
    for (const entry of read.value) entries.set(`${nameOf(entry)} ${entry.mapped}`, entry);
  }
  return parsed([...entries.values()]);
};

const readObject = (object: unknown): Parsed<readonly StoredMap[]> => {
  const { kind, metadata } = object as { kind?: unknown; metadata?: unknown };
  switch (kind) {
    case "AddressMaps": {
      const read = parseAddressMaps(object);
      return read.ok ? parsed(read.value.entries) : read;
    }
    case "Tunnel": {
      const read = parseTunnelMaps(object);
      if (!read.ok) return read;
      const { namespace = "default", name = "" } = metadata as {
        namespace?: string;
        name?: string;
      };
      return parsed(read.value.map((map) => ({ ...map, tunnel: { namespace, name, uid: "" } })));
    }
    default:
      return parsed([]);
  }
};

const nameOf = ({ tunnel }: { readonly tunnel: Translation["tunnel"] }): string =>
  `${tunnel.namespace}/${tunnel.name}`;

const answerText = ({ address, translations }: Answer): string =>
  translations.length === 0
    ? `${address} has no address map: it is dialed as it is`
    : translations.map((one) => translationText(address, one)).join("\n");

const translationText = (address: IpAddress, translation: Translation): string => {
  const { to, address: other, real, mapped } = translation;
  const tunnel = `Tunnel ${nameOf(translation)}`;
  return to === "mapped"
    ? `${address} of ${tunnel} is dialed as ${other} (${real} is ${mapped})`
    : `${address} stands for ${other} of ${tunnel} (${mapped} is ${real})`;
};
