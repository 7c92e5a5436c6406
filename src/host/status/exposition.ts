/** Prints metrics as Prometheus reads them (exposition formats, text-based format 0.0.4). */

export interface Sample {
  /** Label values by name; left out: none. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric without samples is still said to exist. */
export interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: "gauge" | "counter";
  readonly samples: readonly Sample[];
}

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Prints metrics in their order; names are the caller's and have to be valid, everything else is escaped. */
export const printMetrics = (metrics: readonly Metric[]): string =>
  metrics
    .map(({ name, help, type, samples }) => {
      const lines = samples.map(
        ({ labels, value }) => `${name}${printLabels(labels)} ${printNumber(value)}\n`,
      );
      return `# HELP ${name} ${escapeText(help)}\n# TYPE ${name} ${type}\n${lines.join("")}`;
    })
    .join("\n");

const printLabels = (labels: Sample["labels"] = {}): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
};

const escapeText = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");

const escapeLabel = (text: string): string => escapeText(text).replaceAll('"', '\\"');

const printNumber = (value: number): string => {
  if (Number.isNaN(value)) return "NaN";
  if (Number.isFinite(value)) return String(value);
  return value > 0 ? "+Inf" : "-Inf";
};
