/** Collects findings up to a bound, because what is found depends on what a hostile shoot writes (S2). */

import type { Finding } from "#src/model/finding.ts";

/** Enough for a person to see what is wrong, little enough for a log. */
const FINDINGS_MAX = 100;

export class FindingList {
  readonly #findings: Finding[] = [];
  #more = 0;

  /** `make` is not called beyond the bound. */
  add(make: () => Finding): void {
    if (this.#findings.length < FINDINGS_MAX) this.#findings.push(make());
    else this.#more += 1;
  }

  /** What was found; the last one says how many were left out, if any were. */
  all(object: string): Finding[] {
    if (this.#more === 0) return [...this.#findings];
    const message = `${this.#more} more findings about ${object} are not shown: repair those that are`;
    return [...this.#findings, { code: "more-findings", object, message }];
  }
}
