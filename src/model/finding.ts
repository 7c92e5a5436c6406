/** Something that planning noticed and a person should know; it never stops the rest of the plan. */

export interface Finding {
  /** Stable kebab-case word for metrics and tests, e.g. `pod-cidr-conflict`. */
  readonly code: string;
  /** Kind and name of the object it is about, e.g. `Node n1`. */
  readonly object: string;
  /** One sentence: what happened, to what, and what to do. */
  readonly message: string;
}
