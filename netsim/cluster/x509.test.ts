import { X509Certificate, createPrivateKey } from "node:crypto";
import t from "tap";
import { Authority } from "./x509.ts";

t.test("a certificate verifies against its authority and names what it was made for", (t) => {
  const authority = new Authority("alpha");
  const made = authority.issue({
    commonName: "system:node:node1",
    organizations: ["system:nodes"],
    hosts: ["10.250.0.11", "node1", "2001:db8::11"],
  });
  const ca = new X509Certificate(authority.certificate);
  const leaf = new X509Certificate(made.certificate);
  t.ok(leaf.verify(ca.publicKey));
  t.ok(leaf.checkIssued(ca));
  t.ok(ca.ca);
  t.notOk(leaf.ca);
  t.equal(leaf.subject, "O=system:nodes\nCN=system:node:node1");
  t.equal(
    leaf.subjectAltName,
    "IP Address:10.250.0.11, DNS:node1, IP Address:2001:DB8:0:0:0:0:0:11",
  );
  t.ok(leaf.checkPrivateKey(createPrivateKey(made.key)));
  t.end();
});

t.test("another authority's certificate does not verify", (t) => {
  const leaf = new X509Certificate(new Authority("alpha").issue({ commonName: "a" }).certificate);
  t.notOk(leaf.verify(new X509Certificate(new Authority("beta").certificate).publicKey));
  t.end();
});
