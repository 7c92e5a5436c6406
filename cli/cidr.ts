/** `xylem cidr`: address ranges, checked, planned, measured, explained, imported, drawn and translated, with or without a cluster. */

import { Command } from "commander";
import { addCheck } from "./cidr-check.ts";
import { addExplain } from "./cidr-explain.ts";
import { addFree } from "./cidr-free.ts";
import { addImport } from "./cidr-import.ts";
import { addMap } from "./cidr-map.ts";
import { addPlan } from "./cidr-plan.ts";
import { addTranslate } from "./cidr-translate.ts";
import { realCidrWorld, type CidrWorld } from "./cidr-world.ts";
import { endingWithBadInput } from "./policy-output.ts";

/** The command `cidr` with its subcommands. */
export const cidrCommand = (world: CidrWorld = realCidrWorld): Command => {
  const cidr = endingWithBadInput(new Command("cidr")).description(
    "address ranges: checked, planned, measured, explained, imported, drawn and translated, on files or a cluster",
  );
  addCheck(cidr, world);
  addPlan(cidr, world);
  addFree(cidr, world);
  addExplain(cidr, world);
  addImport(cidr, world);
  addMap(cidr, world);
  addTranslate(cidr, world);
  return cidr;
};
