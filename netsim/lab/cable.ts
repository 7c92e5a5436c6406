/** Cuts a machine off without a word: its packets vanish in the switch, no FIN, no carrier change. */

import type { Lab } from "./lab.ts";
import { portsOf } from "./wiring.ts";

/** Drops every packet from and to the machine; idempotent. */
export const cutCable = (lab: Lab, machine: string): Promise<void> =>
  changeCut(lab, machine, "add");

/** Lets packets pass again; idempotent. */
export const restoreCable = (lab: Lab, machine: string): Promise<void> =>
  changeCut(lab, machine, "delete");

const changeCut = async (lab: Lab, machine: string, verb: "add" | "delete"): Promise<void> => {
  const ports = portsOf(lab.topology).filter((port) => port.machine === machine);
  if (ports.length === 0) throw new Error(`There is no machine "${machine}" in the lab.`);
  const elements = ports.map(({ port }) => `"${port}"`).join(", ");
  // To delete what is not there is an error, to add it first is none; both are one transaction.
  const add = `add element bridge lab-wire cut { ${elements} }\n`;
  const input = verb === "add" ? add : `${add}delete element bridge lab-wire cut { ${elements} }\n`;
  await lab.switch.run(["nft", "-f", "-"], { input });
};
