/** The outcome of reading something a person or a peer wrote: a value, or a sentence that says why not. */

export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | {
      readonly ok: false;
      /** One sentence: what was read and what is wrong with it. */
      readonly problem: string;
      /** The canonical spelling, where it is clear what was meant. */
      readonly suggestion?: string;
    };

export const parsed = <T>(value: T): Parsed<T> => ({ ok: true, value });

export const problem = (text: string, suggestion?: string): Parsed<never> =>
  suggestion === undefined
    ? { ok: false, problem: text }
    : { ok: false, problem: text, suggestion };

/** Takes the value of text that is known to be good, such as a constant; a problem is a broken invariant. */
export const valueOf = <T>(read: Parsed<T>): T => {
  if (!read.ok) throw new Error(read.problem);
  return read.value;
};
