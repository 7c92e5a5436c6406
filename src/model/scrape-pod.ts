/** What Prometheus is told of a shoot's pod, as plain data. */

import type { IpAddress } from "./ip.ts";

export interface ScrapePort {
  readonly container: string;
  /** Empty: it has none. */
  readonly name: string;
  readonly number: number;
}

export interface ScrapePod {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly isReady: boolean;
  /** Empty: it has none yet. */
  readonly addresses: readonly IpAddress[];
  readonly ports: readonly ScrapePort[];
  readonly labels: Readonly<Record<string, string>>;
  /** Only those of prometheus.io. */
  readonly annotations: Readonly<Record<string, string>>;
}

/** One group as Prometheus reads it (HTTP service discovery). */
export interface TargetGroup {
  readonly targets: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}
