/** Nominal types: two strings that must not be swapped get two names. */

declare const brand: unique symbol;

/** A `Base` value that passed the checks named `Name`; made only by that type's own parser. */
export type Brand<Base, Name extends string> = Base & { readonly [brand]: Name };
