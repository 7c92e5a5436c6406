/** Runs one device for a test in another process: calls come in over IPC, answers and events go back. */

import {
  openDevice,
  type NativeDesired,
  type NativeDevice,
  type NativeForward,
  type NativeForwardOptions,
  type NativeOptions,
} from "./index.js";

interface Call {
  readonly id: number;
  readonly method: "open" | "set" | "stats" | "forward" | "unforward" | "close";
  readonly argument: unknown;
}

let device: NativeDevice | null = null;
const forwards = new Map<string, NativeForward>();

const opened = (): NativeDevice => {
  if (device === null) throw new Error("no device is open");
  return device;
};

const run = async (call: Call): Promise<unknown> => {
  switch (call.method) {
    case "open": {
      const options = call.argument as Omit<NativeOptions, "privateKey"> & { privateKey: string };
      const privateKey = Buffer.from(options.privateKey, "base64url");
      device = await openDevice({ ...options, privateKey }, (event) => process.send?.({ event }));
      return null;
    }
    case "set":
      return opened().set(call.argument as NativeDesired);
    case "stats":
      return opened().stats();
    case "forward": {
      const options = call.argument as NativeForwardOptions;
      const forward = await opened().forward(options);
      forwards.set(options.listen, forward);
      return forward.port;
    }
    case "unforward":
      return forwards.get(call.argument as string)?.close();
    case "close":
      return opened().close();
  }
};

process.on("message", (call: Call) => {
  run(call).then(
    (value) => process.send?.({ id: call.id, value }),
    (error: Error & { code?: string }) => {
      process.send?.({ id: call.id, error: { code: error.code, message: error.message } });
    },
  );
});
