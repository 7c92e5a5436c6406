/** Certificates are what Node's own reader takes them for. */

import { createPrivateKey, X509Certificate } from "node:crypto";
import t from "tap";
import { Authority } from "./authority.ts";

const VALIDITY = { notBeforeMs: Date.UTC(2026, 0, 1), notAfterMs: Date.UTC(2026, 3, 1) };

void t.test(
  "a certificate verifies against its authority and names what it was made for",
  async (t) => {
    const authority = new Authority("alpha", VALIDITY);
    const hosts = ["xylem.xylem.svc", "10.250.0.11", "2001:db8::11"];
    const made = authority.issue({ commonName: "xylem", hosts }, ["server"], VALIDITY);
    const ca = new X509Certificate(authority.certificate);
    const leaf = new X509Certificate(made.certificate);
    t.ok(leaf.verify(ca.publicKey));
    t.ok(leaf.checkIssued(ca));
    t.ok(ca.ca);
    t.notOk(leaf.ca);
    t.equal(leaf.checkHost("xylem.xylem.svc"), "xylem.xylem.svc");
    t.equal(leaf.checkHost("other.xylem.svc"), undefined);
    t.equal(leaf.checkIP("2001:db8::11"), "2001:db8::11");
    t.strictSame(leaf.keyUsage, ["1.3.6.1.5.5.7.3.1"]);
    t.ok(leaf.checkPrivateKey(createPrivateKey(made.key)));
    t.equal(Date.parse(leaf.validFrom), VALIDITY.notBeforeMs);
    t.equal(Date.parse(leaf.validTo), VALIDITY.notAfterMs);
  },
);

void t.test("another authority's certificate does not verify", async (t) => {
  const made = new Authority("alpha", VALIDITY).issue({ commonName: "a" }, ["client"], VALIDITY);
  const other = new X509Certificate(new Authority("beta", VALIDITY).certificate);
  t.notOk(new X509Certificate(made.certificate).verify(other.publicKey));
});

void t.test("a moment from 2050 on is written so that it is read as that", async (t) => {
  const validity = { notBeforeMs: Date.UTC(2049, 11, 31), notAfterMs: Date.UTC(2050, 0, 1) };
  const { validFrom, validTo } = new X509Certificate(new Authority("far", validity).certificate);
  t.equal(Date.parse(validFrom), validity.notBeforeMs);
  t.equal(Date.parse(validTo), validity.notAfterMs);
});
