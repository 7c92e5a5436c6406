/** AdmissionReview is read strictly and answered for the request that was asked. */

import t from "tap";
import { admissionResponse, parseAdmissionReview } from "./admission-codec.ts";
import { parseInjectablePod } from "./pod-codec.ts";

const REVIEW = {
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: {
    uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
    kind: { group: "", version: "v1", kind: "Pod" },
    resource: { group: "", version: "v1", resource: "pods" },
    namespace: "shoot--lab--alpha",
    operation: "CREATE",
    dryRun: true,
    object: { metadata: {} },
    oldObject: null,
  },
};

void t.test("a review is read with its kind, operation, dryRun and objects", async (t) => {
  t.strictSame(parseAdmissionReview(REVIEW), {
    ok: true,
    value: {
      uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
      kind: "v1/Pod",
      operation: "CREATE",
      namespace: "shoot--lab--alpha",
      name: null,
      isDryRun: true,
      object: { metadata: {} },
      oldObject: null,
    },
  });
  const kind = { group: "xylem.dev", version: "v1alpha1", kind: "NetworkClaim" };
  const claim = parseAdmissionReview({ ...REVIEW, request: { ...REVIEW.request, kind } });
  t.match(claim, { value: { kind: "xylem.dev/v1alpha1/NetworkClaim" } });
});

const wrong: readonly { readonly name: string; readonly body: unknown }[] = [
  { name: "nothing", body: undefined },
  { name: "a text", body: "{}" },
  { name: "a list", body: [] },
  { name: "no request", body: { apiVersion: "admission.k8s.io/v1" } },
  { name: "another version", body: { ...REVIEW, apiVersion: "admission.k8s.io/v1beta1" } },
  {
    name: "an unknown operation",
    body: { ...REVIEW, request: { ...REVIEW.request, operation: "EAT" } },
  },
  { name: "no uid", body: { ...REVIEW, request: { ...REVIEW.request, uid: "" } } },
  {
    name: "a namespace that is a number",
    body: { ...REVIEW, request: { ...REVIEW.request, namespace: 1 } },
  },
];
for (const { name, body } of wrong) {
  void t.test(`${name} is a problem, not a crash`, async (t) => {
    t.match(parseAdmissionReview(body), { ok: false, problem: /AdmissionReview/ });
  });
}

void t.test(
  "an answer carries the patch in base64, also beyond ASCII, and bounded warnings",
  async (t) => {
    const patch = [{ op: "add", path: "/metadata/annotations", value: { a: "schön" } }] as const;
    const warnings = Array.from({ length: 40 }, () => "w".repeat(500));
    const { response } = Object(admissionResponse("u", { kind: "allow", patch, warnings }));
    t.equal(response.uid, "u");
    t.equal(response.allowed, true);
    t.equal(response.patchType, "JSONPatch");
    t.strictSame(JSON.parse(Buffer.from(response.patch, "base64").toString()), patch);
    t.equal(response.warnings.length, 16);
    t.equal(response.warnings[0].length, 256);
  },
);

void t.test("an answer without a patch names no patch type, a denial says why", async (t) => {
  t.strictSame(admissionResponse("u", { kind: "allow", patch: [], warnings: [] }), {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: { uid: "u", allowed: true },
  });
  t.match(admissionResponse("u", { kind: "deny", code: 403, message: "no" }), {
    response: { uid: "u", allowed: false, status: { code: 403, message: "no" } },
  });
});

void t.test("a pod that is not shaped like one is a problem that names the field", async (t) => {
  t.match(parseInjectablePod(null), { ok: false });
  t.match(parseInjectablePod({ metadata: {} }), { ok: false, problem: /spec/ });
  t.match(parseInjectablePod({ metadata: { name: "p", labels: { a: 1 } }, spec: {} }), {
    ok: false,
    problem: /^Pod p: metadata\.labels: "a" must be a text, found 1/,
  });
  t.match(parseInjectablePod({ metadata: {}, spec: { containers: [{}] } }), {
    ok: false,
    problem: /spec\.containers\[0\]\.name/,
  });
});
