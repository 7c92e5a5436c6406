/** Cuts a machine off without a word, or makes its cable lossy: packets vanish in the switch, no FIN, no carrier change. */

import type { Lab } from "./lab.ts";
import { lossRule, type Port, portsOf, wireTable } from "./wiring.ts";

/** Drops every packet from and to the machine; idempotent. */
export const cutCable = (lab: Lab, machine: string): Promise<void> =>
  changeCut(lab, machine, "add");

/** Lets packets pass again; idempotent. */
export const restoreCable = (lab: Lab, machine: string): Promise<void> =>
  changeCut(lab, machine, "delete");

/** Loses a share of the packets towards the machine, in percent with two decimals; 0 ends it. */
export const setLoss = async (lab: Lab, machine: string, lossPercent: number): Promise<void> => {
  const lines = cablesOf(lab, machine).flatMap(({ port }) => [
    `flush chain ${wireTable} loss_${port}`,
    ...(lossPercent > 0 ? [`add rule ${wireTable} loss_${port} ${lossRule(lossPercent)}`] : []),
  ]);
  await lab.switch.run(["nft", "-f", "-"], { input: `${lines.join("\n")}\n` });
};

const cablesOf = (lab: Lab, machine: string): Port[] => {
  const ports = portsOf(lab.topology).filter((port) => port.machine === machine);
  if (ports.length === 0) throw new Error(`There is no machine "${machine}" in the lab.`);
  return ports;
};

const changeCut = async (lab: Lab, machine: string, verb: "add" | "delete"): Promise<void> => {
  const elements = cablesOf(lab, machine)
    .map(({ port }) => `"${port}"`)
    .join(", ");
  // To delete what is not there is an error, to add it first is none; both are one transaction.
  const add = `add element ${wireTable} cut { ${elements} }\n`;
  const input = verb === "add" ? add : `${add}delete element ${wireTable} cut { ${elements} }\n`;
  await lab.switch.run(["nft", "-f", "-"], { input });
};
