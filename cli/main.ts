#!/usr/bin/env node
/** xylem: looks at tunnels from outside; every subcommand is a file of its own. */

import { Command } from "commander";
import { version } from "#src/host/version.ts";
import { cidrCommand } from "./cidr.ts";
import { manifestsCommand } from "./manifests.ts";
import { policyCommand } from "./policy.ts";
import { statusCommand } from "./status.ts";

await new Command("xylem")
  .description("Connects a hosted Kubernetes control plane to the cluster it controls.")
  .version(version)
  .addCommand(cidrCommand())
  .addCommand(manifestsCommand())
  .addCommand(policyCommand())
  .addCommand(statusCommand())
  .parseAsync();
