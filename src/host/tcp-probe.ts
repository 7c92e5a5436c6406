/** Proves a path by opening a TCP connection and looking at the source address that the kernel chose. */

import { connect } from "node:net";

export type ProbeOutcome =
  | { readonly kind: "connected"; readonly localAddress: string; readonly ms: number }
  | { readonly kind: "failed"; readonly code: string; readonly ms: number };

/** Opens and closes one connection; never throws. Takes at most `timeoutMs`. */
export const probeTcp = (target: {
  readonly address: string;
  readonly port: number;
  readonly timeoutMs: number;
}): Promise<ProbeOutcome> =>
  new Promise((resolve) => {
    const started = performance.now();
    const socket = connect({ host: target.address, port: target.port });
    const finish = (
      outcome: { kind: "connected"; localAddress: string } | { kind: "failed"; code: string },
    ): void => {
      socket.destroy();
      resolve({ ...outcome, ms: performance.now() - started });
    };
    socket.setTimeout(target.timeoutMs, () => finish({ kind: "failed", code: "ETIMEDOUT" }));
    socket.once("connect", () =>
      finish({ kind: "connected", localAddress: socket.localAddress ?? "" }),
    );
    socket.once("error", (error: NodeJS.ErrnoException) =>
      finish({ kind: "failed", code: error.code ?? "EIO" }),
    );
  });
