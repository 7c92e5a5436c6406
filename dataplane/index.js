// Loads the native data plane and turns its failures into errors with a `code`.

import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);

const failure = (code, message, cause) => Object.assign(new Error(message, { cause }), { code });

const typed = (error) => {
  const [code, message] = String(error?.message ?? error).split("\0", 2);
  return message === undefined ? failure("io", code, error) : failure(code, message, error);
};

const attempt = async (start) => {
  try {
    return await start();
  } catch (error) {
    throw typed(error);
  }
};

const attemptNow = (call) => {
  try {
    return call();
  } catch (error) {
    throw typed(error);
  }
};

let native = null;

const load = () => {
  if (native !== null) return native;
  const path = process.env.XYLEM_DATAPLANE ?? fileURLToPath(new URL("xylem.node", import.meta.url));
  if (!existsSync(path)) {
    throw failure("io", `The native data plane ${path} is missing: run \`npm run build:dataplane\`.`);
  }
  try {
    native = require(path);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw failure("io", `The native data plane ${path} does not load (${why}): run \`npm run build:dataplane\`.`, error);
  }
  return native;
};

/** See index.d.ts. */
export const giveBackMemory = () => native?.giveBackMemory();

/** Opens a device. See index.d.ts. */
export const openDevice = async (options, onEvent) => {
  const { openDevice: open } = load();
  const { interface: name, ...rest } = options;
  const shape = name === null ? rest : { ...rest, interface: name };
  const device = await attempt(() => open(shape, onEvent));
  return {
    set: (desired) => attempt(() => device.set(desired)),
    stats: () => attemptNow(() => device.stats()),
    measured: () => attemptNow(() => device.measured()),
    forward: async (forward) => {
      const opened = await attempt(() => device.forward(forward));
      return { port: opened.port ?? null, close: () => attempt(() => opened.close()) };
    },
    close: () => attempt(() => device.close()),
  };
};
