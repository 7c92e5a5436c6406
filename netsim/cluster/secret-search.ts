/** Gathers every secret of a lab's tunnel and looks for them where none may be: logs, status, metrics, command lines. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { parse } from "yaml";
import { parseMasterSecret, slotPrivateKey } from "#src/host/slot-keys.ts";
import { valueOf } from "#src/model/parsed.ts";
import { slotsUpTo } from "#src/model/slot.ts";
import type { Cluster } from "./cluster.ts";
import { tunnelName, tunnelNamespace } from "./product.ts";

const slots = 32;
const agentKeyFile = "/var/lib/xylem/agent.key";

/** A secret's name and the texts that would give it away. */
export interface Secret {
  readonly name: string;
  readonly texts: readonly string[];
}

export interface Place {
  readonly name: string;
  readonly text: string;
}

/** Master secret, slot keys, agents' keys and tokens, as they are now. */
export const gatherSecrets = async (cluster: Cluster): Promise<readonly Secret[]> => {
  const { seed, shoot, site } = cluster;
  const where = ["get", "secret", `${tunnelName}-xylem`, "-n", tunnelNamespace, "-o", "json"];
  const object: unknown = JSON.parse((await seed.kubectl.run(where)).stdout);
  const master = valueOf(parseMasterSecret(object));
  const slotKeys = slotsUpTo(slots).map((slot) =>
    spellings(`key of slot ${slot}`, valueOf(slotPrivateKey(master, slot)).bytes()),
  );
  const agentKeys = site.nodes.map(async ({ name }) => {
    const { stdout } = await cluster.machine(name).run(["cat", agentKeyFile]);
    return spellings(`key of ${name}`, Buffer.from(stdout.trim(), "base64"));
  });
  const tokens = [seed.keys.folder, shoot.keys.folder].map(tokensIn);
  return [
    spellings("master secret", master),
    ...slotKeys,
    ...(await Promise.all(agentKeys)),
    ...(await Promise.all(tokens)).flat(),
  ];
};

/** Every log of the lab, and the command line of every process of this machine. */
export const readLogsAndArguments = async ({ lab }: Cluster): Promise<readonly Place[]> => {
  const folder = join(lab.dir, "log");
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  const logs = files
    .filter((file) => file.isFile())
    .map(async (file): Promise<Place> => {
      const path = join(file.parentPath, file.name);
      return { name: path, text: await readFile(path, "utf8") };
    });
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""));
  const argv = { name: "command lines", text: (await Promise.all(lines)).join("\n") };
  return [...(await Promise.all(logs)), argv];
};

/** Which secret is where, in words without the secret. */
export const findSecrets = (
  secrets: readonly Secret[],
  places: readonly Place[],
): readonly string[] =>
  places.flatMap((place) =>
    secrets
      .filter(({ texts }) => texts.some((text) => place.text.includes(text)))
      .map((secret) => `${secret.name} is in ${place.name}`),
  );

/** Base64 without its padding finds base64url too where both spell it alike; hex as debuggers print it. */
const spellings = (name: string, bytes: Uint8Array): Secret => {
  const base64 = Buffer.from(bytes).toString("base64").replace(/=+$/, "");
  const base64url = Buffer.from(bytes).toString("base64url");
  return { name, texts: [...new Set([base64, base64url, Buffer.from(bytes).toString("hex")])] };
};

/** The claims and the signature of each kubeconfig's token; the header is the same for all and no secret. */
const tokensIn = async (folder: string): Promise<readonly Secret[]> => {
  const files = (await readdir(folder)).filter((file) => file.endsWith(".conf"));
  const found = files.map(async (file): Promise<readonly Secret[]> => {
    const config = parse(await readFile(join(folder, file), "utf8")) as {
      readonly users: readonly { readonly user: { readonly token?: string } }[];
    };
    return config.users.flatMap(({ user: { token } }) => {
      const [, ...parts] = token?.split(".") ?? [];
      return parts.length === 0 ? [] : [{ name: `token of ${file}`, texts: parts }];
    });
  });
  return (await Promise.all(found)).flat();
};
