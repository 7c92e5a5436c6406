/** Shapes of the REST API's requests, for checks and for OpenAPI; what a field means is checked by the codecs, in words. */

/** More would be a mistake, or an attack. */
const CIDRS_MAX = 10_000;
const NAMES_MAX = 64;
const NAME_CHARS_MAX = 253;

const NAME = { type: "string", minLength: 1, maxLength: NAME_CHARS_MAX } as const;

const wish = {
  type: "object",
  description: "Either a cidr or a prefixLength.",
  properties: { cidr: {}, prefixLength: {} },
};
const wishes = { type: "object", properties: { ipv4: wish, ipv6: wish } };

const claim = {
  type: "object",
  required: ["namespace", "name", "spec"],
  properties: {
    namespace: NAME,
    name: NAME,
    spec: {
      type: "object",
      description: "The spec of a NetworkClaim.",
      properties: {
        vpc: { description: "The network domain whose clusters reach each other." },
        seeds: { description: "Every seed that the shoot runs on or may move to." },
        adopt: { description: "The cluster exists; its ranges may overlap its seeds'." },
        nodes: wishes,
        pods: wishes,
        services: wishes,
      },
    },
  },
};

const claimName = {
  type: "object",
  required: ["namespace", "name"],
  properties: { namespace: NAME, name: NAME },
};

export const CHECK = {
  summary: "Says of each CIDR whether it is valid and canonical, and if not, why and what would be",
  body: {
    type: "object",
    required: ["cidrs"],
    properties: { cidrs: { type: "array", maxItems: CIDRS_MAX, items: {} } },
  },
};

export const PLAN = {
  summary: "Says what a claim would get now; changes nothing",
  body: claim,
};

export const CLAIM = {
  summary: "Makes a NetworkClaim; its ranges are granted by the allocator, usually within a second",
  description:
    "201 made, 200 it was there with this spec, 409 it would collide (the sentence says with what, and what would fit).",
  body: claim,
};

export const READ_CLAIM = {
  summary: "Shows a claim and what it has",
  params: claimName,
};

export const RELEASE = {
  summary: "Deletes a claim; its blocks are free once it is gone",
  params: claimName,
};

const names = { type: "array", maxItems: NAMES_MAX, items: NAME };

export const FREE = {
  summary: "Measures the free space of each pool",
  querystring: { type: "object", properties: { vpc: names, seed: names } },
};

export const EXPLAIN = {
  summary: "Says what two ranges are to each other, and which rule allows or forbids it",
  body: {
    type: "object",
    required: ["a", "b"],
    properties: {
      a: {
        ...NAME,
        description: "A CIDR, an address, claim/NAMESPACE/NAME, seed/NAME or pool/NAME",
        maxLength: 512,
      },
      b: { ...NAME, description: "The same", maxLength: 512 },
    },
  },
};
