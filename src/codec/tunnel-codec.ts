/** `Tunnel` of xylem.dev/v1alpha1: from the object in the seed to a checked spec with defaults (docs/objects.md). */

import { parseCidr } from "#src/model/cidr.ts";
import { parsePort, type Endpoint } from "#src/model/endpoint.ts";
import { parseIp } from "#src/model/ip.ts";
import { parsed, problem, valueOf, type Parsed } from "#src/model/parsed.ts";
import { quoted } from "#src/model/quoted.ts";
import type { MappedRanges, SeedAddress, Tunnel, TunnelMode } from "#src/model/tunnel.ts";
import {
  fieldAt,
  fieldOf,
  isAbsent,
  itemsOf,
  parseName,
  parseWhole,
  reading,
  take,
  takeOr,
  type Field,
} from "./fields.ts";
import { refuseSmallTransit, takeRanges } from "./range-fields.ts";

/** The benchmarking range of RFC 2544: routed nowhere, and clusters seldom use it. */
const TRANSIT_STANDARD = [valueOf(parseCidr("198.18.0.0/23"))];
const SLOTS_STANDARD = 32;
const MTU_STANDARD = 1380;
const PORT_STANDARD = 51820;
/** etcd's members, DNS, an API server or two: a list that is longer is a mistake. */
const SEED_ADDRESSES_MAX = 64;

/** IPv6 needs 1280 (RFC 8200, 5); above 9000 is no Ethernet. */
export const parseMtu = parseWhole({ min: 1280, max: 9000 });

/** Reads a Tunnel; the problem names the object, the field, its value and the fix. */
export const parseTunnel = (object: unknown): Parsed<Tunnel> =>
  reading({ kind: "Tunnel", object }, (root) => {
    const spec = fieldOf(root, "spec");
    const slots = takeOr({
      field: fieldOf(spec, "slots"),
      parse: parseWhole({ min: 1, max: 256 }),
      standard: SLOTS_STANDARD,
    });
    const { ranges, transit } = takeRanges({
      ranges: fieldOf(spec, "ranges"),
      transit: fieldOf(spec, "transit"),
      transitStandard: TRANSIT_STANDARD,
    });
    refuseSmallTransit({ path: "spec.transit", transit, slots });
    return {
      namespace: take(fieldAt(root, "metadata", "namespace"), parseName),
      name: take(fieldAt(root, "metadata", "name"), parseName),
      generation: takeOr({
        field: fieldAt(root, "metadata", "generation"),
        parse: parseWhole({ min: 0, max: Number.MAX_SAFE_INTEGER }),
        standard: 1,
      }),
      ranges,
      endpoint: takeEndpoint(fieldOf(spec, "endpoint")),
      mode: takeOr({ field: fieldOf(spec, "mode"), parse: parseMode, standard: "tun" }),
      transit,
      slots,
      mtu: takeOr({ field: fieldOf(spec, "mtu"), parse: parseMtu, standard: MTU_STANDARD }),
      mapped: takeOr({
        field: fieldOf(spec, "mapped"),
        parse: parseMapped,
        standard: "overlapping",
      }),
      seedAddresses: itemsOf(fieldOf(spec, "seedAddresses"), { max: SEED_ADDRESSES_MAX }).map(
        takeSeedAddress,
      ),
    };
  });

const parseMode = (value: unknown): Parsed<TunnelMode> =>
  value === "tun" ? parsed(value) : problem(`must be "tun", found ${quoted(value)}`);

const parseMapped = (value: unknown): Parsed<MappedRanges> =>
  value === "overlapping" || value === "all"
    ? parsed(value)
    : problem(`must be "overlapping" or "all", found ${quoted(value)}`);

const takeSeedAddress = (item: Field): SeedAddress => ({
  name: take(fieldOf(item, "name"), parseName),
  address: take(fieldOf(item, "address"), parseIp),
});

const takeEndpoint = (field: Field): Endpoint | null => {
  if (isAbsent(field)) return null;
  return {
    address: take(fieldOf(field, "host"), parseHost),
    port: takeOr({ field: fieldOf(field, "port"), parse: parsePort, standard: PORT_STANDARD }),
  };
};

const parseHost = (value: unknown): Parsed<Endpoint["address"]> => {
  const read = parseIp(value);
  if (read.ok || read.suggestion !== undefined) return read;
  return problem(
    `${read.problem}; write an address, or leave endpoint out so that the shoot's agent Service says it`,
  );
};
