/** The tunnel's state, live: for each gateway its peers, which node is relay, who was entry, and rates. */

import { setTimeout as after } from "node:timers/promises";
import type { PeerStats } from "#src/model/device.ts";
import type { EndStatus, Product } from "./product.ts";

const INTERVAL_MS = 1_000;

interface Look {
  readonly atMs: number;
  readonly gateways: readonly (readonly [string, EndStatus | null])[];
  readonly agents: readonly (readonly [string, EndStatus | null])[];
}

const look = async (product: Product): Promise<Look> => {
  const ask = (
    programs: Iterable<readonly [string, { status: () => Promise<EndStatus | null> }]>,
  ) =>
    Promise.all(
      [...programs].map(
        async ([name, program]) => [name, await program.status().catch(() => null)] as const,
      ),
    );
  const [gateways, agents] = await Promise.all([
    ask(Object.entries(product.gateways)),
    ask(product.agents),
  ]);
  return { atMs: performance.now(), gateways, agents };
};

const rate = (bytes: number, ms: number): string => {
  const perSecond = Math.max(0, (bytes * 8 * 1000) / Math.max(1, ms));
  if (perSecond >= 1e6) return `${(perSecond / 1e6).toFixed(1)} Mbit/s`;
  return `${(perSecond / 1e3).toFixed(1)} kbit/s`;
};

const age = (ms: number | null): string => {
  if (ms === null) return "never";
  return ms < 10_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(ms / 1000)} s`;
};

const row = (cells: readonly string[], widths: readonly number[]): string =>
  cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join("  ")
    .trimEnd();

const peerWidths = [10, 18, 14, 14, 10, 10, 9];

const peerRow = (
  peer: PeerStats,
  before: PeerStats | undefined,
  ms: number,
  status: EndStatus,
): string => {
  const node = status.nodes?.[peer.publicKey] ?? "?";
  const role =
    node === status.relay ? "owner, relay" : node === status.standby ? "owner, standby" : "owner";
  return `    ${row(
    [
      node,
      role,
      `↓ ${rate(peer.rxBytes - (before?.rxBytes ?? peer.rxBytes), ms)}`,
      `↑ ${rate(peer.txBytes - (before?.txBytes ?? peer.txBytes), ms)}`,
      age(peer.handshakeAgeMs),
      age(peer.receivedAgeMs),
      peer.rttUs === null ? "-" : `${(peer.rttUs / 1000).toFixed(1)} ms`,
    ],
    peerWidths,
  )}`;
};

const gatewayLines = (
  name: string,
  status: EndStatus | null,
  before: EndStatus | null,
  ms: number,
): string[] => {
  if (status === null) return [`gateway ${name}: does not answer`];
  const state = status.problem ?? "ready";
  const peers = status.device?.peers ?? [];
  const old = new Map(before?.device?.peers.map((peer) => [peer.publicKey, peer]));
  const nodeOf = (peer: PeerStats): string => status.nodes?.[peer.publicKey] ?? peer.publicKey;
  const byNode = peers.toSorted((a, b) => nodeOf(a).localeCompare(nodeOf(b)));
  return [
    `gateway ${name}: slot ${status.slot ?? "-"}, ${state}`,
    `    ${row(["node", "role", "from it", "to it", "handshake", "heard", "probe"], peerWidths)}`,
    ...byNode.map((peer) => peerRow(peer, old.get(peer.publicKey), ms, status)),
  ];
};

/** An agent is entry for what it passes on; the counter is of datagrams since it started. */
const agentLine = (name: string, status: EndStatus | null): string => {
  if (status === null) return `agent ${name}: does not answer`;
  const passedOn = status.device?.counters["relay_datagrams"] ?? 0;
  const entry =
    status.device === null
      ? ""
      : `, entry for ${status.device.relayFlows} flows (${passedOn} datagrams passed on)`;
  return `agent ${name}: id ${status.agentId ?? "-"}, ${status.problem ?? "ready"}${entry}`;
};

/** Renders two looks; pure, so that a test can read it. */
export const renderLive = (now: Look, before: Look): string => {
  const ms = now.atMs - before.atMs;
  const old = new Map(before.gateways);
  return [
    ...now.gateways.flatMap(([name, status]) =>
      gatewayLines(name, status, old.get(name) ?? null, ms),
    ),
    ...now.agents.map(([name, status]) => agentLine(name, status)),
    "Ctrl-C stops and removes everything.",
  ].join("\n");
};

/** Repaints in place on a terminal; elsewhere prints once every ten seconds. Returns when `stopping` comes. */
export const showLive = async (product: Product, stopping: AbortSignal): Promise<void> => {
  const isTerminal = process.stderr.isTTY;
  let before = await look(product);
  let painted = 0;
  while (!stopping.aborted) {
    await after(isTerminal ? INTERVAL_MS : INTERVAL_MS * 10, undefined, { signal: stopping }).catch(
      () => undefined,
    );
    if (stopping.aborted) return;
    const now = await look(product);
    const text = renderLive(now, before);
    const up = isTerminal && painted > 0 ? `\u001b[${painted}A\u001b[J` : "";
    process.stderr.write(`${up}${text}\n`);
    painted = text.split("\n").length;
    before = now;
  }
};
