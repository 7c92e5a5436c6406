/** Address ranges of Gardener's Seed and Shoot (core.gardener.cloud/v1beta1, pkg/apis/core/v1beta1/types_{seed,shoot}.go). */

import type { Parsed } from "#src/model/parsed.ts";
import { fieldAt, fieldAtIfPresent, parseName, reading, take, type Field } from "./fields.ts";
import { RangeReader, textAt, type ImportedRange, type ImportedRanges } from "./import-fields.ts";

export interface GardenerSeed extends ImportedRanges {
  readonly name: string;
  /** What shoots get that name no pods or services. */
  readonly shootDefaults: readonly ImportedRange[];
}

export interface GardenerShoot extends ImportedRanges {
  /** The namespace of the control plane in its seed. */
  readonly technicalId: string;
  readonly name: string;
  /** Where it runs; null: it was not scheduled yet. */
  readonly seed: string | null;
  /** An existing network of its cloud that it is put into; null: it has one of its own. */
  readonly network: string | null;
}

export const parseGardenerSeed = (object: unknown): Parsed<GardenerSeed> =>
  reading({ kind: "Seed", object }, (root) => {
    const name = take(fieldAt(root, "metadata", "name"), parseName);
    const reader = new RangeReader(`Seed ${name}`);
    const networks = (field: string) => fieldAtIfPresent(root, "spec", "networks", field);
    reader.one("nodes", networks("nodes"));
    reader.one("pods", networks("pods"));
    reader.one("services", networks("services"));
    // Control planes can't reach these, so no shoot can live there.
    reader.list("reserved", networks("blockCIDRs"));
    const defaults = new RangeReader(`Seed ${name}`);
    defaults.one("pods", fieldAtIfPresent(root, "spec", "networks", "shootDefaults", "pods"));
    defaults.one(
      "services",
      fieldAtIfPresent(root, "spec", "networks", "shootDefaults", "services"),
    );
    return {
      name,
      ranges: reader.ranges,
      notes: [...reader.notes, ...defaults.notes],
      shootDefaults: defaults.ranges,
    };
  });

export const parseGardenerShoot = (object: unknown): Parsed<GardenerShoot> =>
  reading({ kind: "Shoot", object }, (root) => {
    const name = take(fieldAt(root, "metadata", "name"), parseName);
    const namespace = textAt(root, "metadata", "namespace") ?? "default";
    const reader = new RangeReader(`Shoot ${namespace}/${name}`);
    for (const use of ["nodes", "pods", "services"] as const) {
      reader.one(use, fieldAtIfPresent(root, "spec", "networking", use));
      // The infrastructure may have chosen others, or some of a second family.
      reader.list(use, fieldAtIfPresent(root, "status", "networking", use));
    }
    return {
      name,
      technicalId: textAt(root, "status", "technicalID") ?? technicalIdOf(namespace, name),
      seed: textAt(root, "status", "seedName") ?? textAt(root, "spec", "seedName"),
      network: networkOf(root),
      ranges: reader.ranges,
      notes: reader.notes,
    };
  });

/** Gardener names the namespace after the project, whose own namespace begins with `garden-`. */
const technicalIdOf = (namespace: string, name: string): string =>
  `shoot--${namespace.replace(/^garden-/, "")}--${name}`;

/** By provider: AWS and Alibaba, Google, Azure, OpenStack. */
const NETWORK_FIELDS = [["vpc", "id"], ["vpc", "name"], ["vnet", "name"], ["id"]] as const;

const networkOf = (root: Field): string | null => {
  for (const names of NETWORK_FIELDS) {
    const text = textAt(root, "spec", "provider", "infrastructureConfig", "networks", ...names);
    if (text !== null) return text;
  }
  return null;
};
