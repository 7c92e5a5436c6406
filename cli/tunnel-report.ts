/** What a person or a program is told of one Tunnel, from its object in the seed; pure. */

import type { KubeObject } from "#src/ports/kube.ts";

export interface ReportedCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
}

export interface TunnelReport {
  readonly namespace: string;
  readonly name: string;
  /** The condition Ready is True, and the status is about the spec of now. */
  readonly isReady: boolean;
  /** Why what follows may be old; null: it is about the Tunnel as it is. */
  readonly note: string | null;
  readonly conditions: readonly ReportedCondition[];
  readonly gateways: readonly {
    readonly slot: number;
    readonly holder: string;
    readonly address: string;
  }[];
  /** Null: not counted yet. */
  readonly agents: { readonly ready: number; readonly total: number } | null;
  /** RFC 3339; null: none was told. */
  readonly lastHandshake: string | null;
}

/** Never throws: what is missing or odd is left out. */
export const readTunnelReport = (object: KubeObject): TunnelReport => {
  const { namespace = "", name } = object.metadata;
  const { status } = object;
  const conditions = itemsOf(member(status, "conditions")).map((condition) => ({
    type: textOf(member(condition, "type")),
    status: textOf(member(condition, "status")),
    reason: textOf(member(condition, "reason")),
    message: textOf(member(condition, "message")),
  }));
  const gateways = itemsOf(member(status, "gateways")).map((gateway) => ({
    slot: numberOf(member(gateway, "slot")),
    holder: textOf(member(gateway, "holder")),
    address: textOf(member(gateway, "address")),
  }));
  const agents = member(status, "agents");
  const lastHandshake = textOf(member(status, "lastHandshake"));
  const note = noteOf(object);
  const ready = conditions.find(({ type }) => type === "Ready");
  return {
    namespace,
    name,
    isReady: note === null && ready?.status === "True",
    note,
    conditions,
    gateways: gateways.toSorted((a, b) => a.slot - b.slot),
    agents:
      agents === undefined
        ? null
        : { ready: numberOf(member(agents, "ready")), total: numberOf(member(agents, "total")) },
    lastHandshake: lastHandshake === "" ? null : lastHandshake,
  };
};

/** A table with one line a Tunnel, and below each what is not as it should be and who holds which slot. */
export const renderReports = (reports: readonly TunnelReport[]): string => {
  if (reports.length === 0) return "";
  const head = ["NAMESPACE", "NAME", "READY", "REASON", "GATEWAYS", "AGENTS", "LAST HANDSHAKE"];
  const rows = reports.map((report) => {
    const ready = report.conditions.find(({ type }) => type === "Ready");
    const { agents } = report;
    return [
      report.namespace,
      report.name,
      ready?.status ?? "Unknown",
      ready?.reason ?? "NotSeen",
      String(report.gateways.length),
      agents === null ? "-" : `${agents.ready}/${agents.total}`,
      report.lastHandshake ?? "-",
    ];
  });
  const widths = head.map((title, at) =>
    Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)),
  );
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd();
  const lines = rows.flatMap((row, at) => {
    const report = reports[at];
    return [line(row), ...(report === undefined ? [] : detailsOf(report))];
  });
  return `${[line(head), ...lines].join("\n")}\n`;
};

const detailsOf = (report: TunnelReport): string[] => [
  ...(report.note === null ? [] : [`  note: ${report.note}`]),
  ...report.conditions
    .filter(({ status }) => status !== "True")
    .map(
      ({ type, status, reason, message }) =>
        `  ${type} is ${status} (${reason})${message === "" ? "" : `: ${message}`}`,
    ),
  ...report.gateways.map(({ slot, holder, address }) => `  slot ${slot}: ${holder} at ${address}`),
];

const noteOf = ({ metadata, status }: KubeObject): string | null => {
  if (metadata.deletionTimestamp !== undefined) {
    return `being deleted since ${metadata.deletionTimestamp}`;
  }
  const observed = member(status, "observedGeneration");
  if (observed === undefined) return "no controller has looked at it yet: is one running?";
  return typeof observed === "number" && observed < (metadata.generation ?? 0)
    ? `the status is about generation ${observed}, the spec is generation ${metadata.generation}`
    : null;
};

const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null
    ? Object.getOwnPropertyDescriptor(value, name)?.value
    : undefined;

const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

const numberOf = (value: unknown): number => (typeof value === "number" ? value : 0);

/** On one line, and without the control characters that a terminal would obey. */
const textOf = (value: unknown): string =>
  typeof value === "string" ? value.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ") : "";
