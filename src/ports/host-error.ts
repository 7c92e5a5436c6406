/** Failures of the world outside: retried with backoff, never a broken invariant. */

/** A failed call to the host, the kernel or an API; `code` is the part that programs may look at. */
export class HostError<Code extends string = string> extends Error {
  readonly code: Code;

  constructor(code: Code, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "HostError";
    this.code = code;
  }
}

export const isHostError = (e: unknown): e is HostError => e instanceof HostError;
