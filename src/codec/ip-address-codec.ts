/** `IPAddress` of networking.k8s.io/v1: which Service has an address (KEP-1880). */

import { parseIp, type IpAddress } from "#src/model/ip.ts";
import type { Parsed } from "#src/model/parsed.ts";
import { fieldAt, FieldProblem, parseName, reading, take } from "./fields.ts";

export interface ServiceAddress {
  readonly address: IpAddress;
  /** `namespace/name`. */
  readonly service: string;
}

/** Reads one whose parent is a Service; others are refused. */
export const parseIpAddressObject = (object: unknown): Parsed<ServiceAddress> =>
  reading({ kind: "IPAddress", object }, (root) => {
    const parent = fieldAt(root, "spec", "parentRef");
    if (fieldAt(parent, "resource").value !== "services") {
      throw new FieldProblem("spec.parentRef is no Service");
    }
    const namespace = take(fieldAt(parent, "namespace"), parseName);
    const name = take(fieldAt(parent, "name"), parseName);
    return {
      address: take(fieldAt(root, "metadata", "name"), parseIp),
      service: `${namespace}/${name}`,
    };
  });
