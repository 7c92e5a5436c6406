/** The webhook's certificates as plain data: generations, and where a rotation stands. */

/** One authority, the one leaf it signed, and the leaf's key. The authority's key was forgotten once it had signed. */
export interface CertificateGeneration {
  /** PEM of the authority's certificate: what goes into a caBundle. */
  readonly authority: string;
  /** PEM of the leaf. */
  readonly certificate: string;
  /** PEM of the leaf's key. */
  readonly key: string;
  /** DNS names that the leaf is for, sorted. */
  readonly names: readonly string[];
  /** Milliseconds since 1970. */
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/*
 *                 renewal is due              every configuration had both       every replica had
 *                                             authorities for ANNOUNCE           OVERLAP to switch
 *  none --> steady ----------> announcing ----------------------> overlapping -----------------> steady
 *  serves:  current            current                            current (was next)
 *  bundle:  current            current, next                      previous, current
 */
export type CertificateRotation =
  | { readonly kind: "none" }
  | { readonly kind: "steady"; readonly current: CertificateGeneration }
  | {
      readonly kind: "announcing";
      readonly current: CertificateGeneration;
      readonly next: CertificateGeneration;
      /** When every webhook configuration was seen with both; null: not yet. */
      readonly announcedMs: number | null;
    }
  | {
      readonly kind: "overlapping";
      readonly previous: CertificateGeneration;
      readonly current: CertificateGeneration;
      readonly switchedMs: number;
    };

/** All generations of a state. */
export const generationsOf = (rotation: CertificateRotation): readonly CertificateGeneration[] => {
  switch (rotation.kind) {
    case "none":
      return [];
    case "steady":
      return [rotation.current];
    case "announcing":
      return [rotation.current, rotation.next];
    case "overlapping":
      return [rotation.previous, rotation.current];
  }
};
