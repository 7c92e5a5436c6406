/** The Firewall port over nft(8): the only file that spawns nft or looks at what it says. */

import { spawn } from "node:child_process";
import { NFT_TABLE, renderNft, renderNftRemoval } from "#src/codec/nft.ts";
import { parseNft } from "#src/codec/nft-reader.ts";
import type { FirewallTable } from "#src/model/network.ts";
import type { Firewall, FirewallObserved } from "#src/ports/firewall.ts";
import { HostError } from "#src/ports/host-error.ts";
import { RulesetGeneration } from "./ruleset-generation.ts";

/** nft answers in milliseconds; longer means that another program holds the ruleset. */
const RUN_TIMEOUT_MS = 20_000;
/** Our table with all its counters is some kilobytes; anything near this is not ours. */
const OUTPUT_BYTES_MAX = 4 << 20;

interface NftResult {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Our table in the network namespace of this process. */
export class NftFirewall implements Firewall {
  readonly #program: string;
  readonly #generation = new RulesetGeneration();
  /** The ruleset's number before it was read; null: not read since we changed it ourselves. */
  #seen: number | null = null;

  /** `program` is the nft to run; the PATH decides when it is left out. */
  constructor(program = "nft") {
    this.#program = program;
  }

  /** A message to the kernel instead of a process, which costs some 30 ms of CPU time. */
  async hasChanged(): Promise<boolean> {
    return this.#seen === null || (await this.#generation.read()) !== this.#seen;
  }

  async observe(): Promise<FirewallObserved | null> {
    this.#seen = null;
    const generation = await this.#generation.read();
    const args = ["--json", "list", "table", "inet", NFT_TABLE];
    const { status, stdout, stderr } = await this.#run(args, "");
    if (status !== 0) {
      if (isAbsent(stderr)) {
        this.#seen = generation;
        return null;
      }
      throw nftError(`Reading table inet ${NFT_TABLE}`, stderr);
    }
    const observed = parseNft(parseJson(stdout));
    this.#seen = generation;
    return observed;
  }

  async replace(table: FirewallTable): Promise<void> {
    this.#seen = null;
    const { status, stderr } = await this.#run(["--file", "-"], renderNft(table));
    if (status !== 0) throw nftError(`Writing table inet ${NFT_TABLE}`, stderr);
  }

  async remove(): Promise<void> {
    this.#seen = null;
    const { status, stderr } = await this.#run(["--file", "-"], renderNftRemoval());
    if (status !== 0) throw nftError(`Removing table inet ${NFT_TABLE}`, stderr);
  }

  #run(args: readonly string[], input: string): Promise<NftResult> {
    const { promise, resolve, reject } = Promise.withResolvers<NftResult>();
    const child = spawn(this.#program, args, {
      stdio: ["pipe", "pipe", "pipe"],
      // nft translates its messages.
      env: { PATH: process.env["PATH"] ?? "", LC_ALL: "C" },
      timeout: RUN_TIMEOUT_MS,
      killSignal: "SIGKILL",
    });
    const output = { stdout: "", stderr: "" };
    const gather = (name: "stdout" | "stderr") => (chunk: string) => {
      output[name] += chunk;
      if (output[name].length > OUTPUT_BYTES_MAX) child.kill("SIGKILL");
    };
    child.stdout.setEncoding("utf8").on("data", gather("stdout"));
    child.stderr.setEncoding("utf8").on("data", gather("stderr"));
    child.on("error", (cause) => reject(spawnError(this.#program, cause)));
    child.on("close", (status) => resolve({ status, ...output }));
    // A program that ends before it has read its input answers with its status.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    return promise;
  }
}

const isAbsent = (stderr: string): boolean => stderr.includes("No such file or directory");

function nftError(what: string, stderr: string): HostError {
  const said = stderr.trim().split("\n")[0] ?? "";
  const head = `${what} failed (nft: ${said === "" ? "killed after 20 s or too much output" : said})`;
  if (/Operation not permitted|Permission denied/.test(stderr)) {
    return new HostError("no-permission", `${head}: give the container the capability NET_ADMIN.`);
  }
  if (
    /Operation not supported|not supported|No such file or directory|Protocol not available/.test(
      stderr,
    )
  ) {
    return new HostError(
      "unsupported",
      `${head}: this kernel lacks a part of nftables; load nf_tables, nft_ct, nft_masq and nft_counter on the host.`,
    );
  }
  return new HostError("io", `${head}.`);
}

function spawnError(program: string, cause: Error): HostError {
  const isMissing = "code" in cause && cause.code === "ENOENT";
  return isMissing
    ? new HostError("no-nft", `The program ${program} is missing: install the package nftables.`, {
        cause,
      })
    : new HostError("io", `The program ${program} can't be started.`, { cause });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw new HostError(
      "io",
      "nft --json printed what is not JSON; it must be built with libjansson.",
      { cause },
    );
  }
}
