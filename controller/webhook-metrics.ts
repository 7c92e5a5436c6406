/** Prometheus metrics of the webhook's server: reviews by path and outcome, the certificate's end. */

import { Gauge, Histogram, type Registry } from "prom-client";
import type { ReviewOutcome } from "#src/host/webhook/webhook-server.ts";

/** What a scrape may ask. */
export interface WebhookMetricsSource {
  /** Milliseconds since 1970; null: there is no certificate yet. */
  certificateEndsMs(): number | null;
}

export type OnReview = (review: {
  readonly path: string;
  readonly outcome: ReviewOutcome;
  readonly durationMs: number;
}) => void;

/** Seconds; an API server waits for 10. */
const REVIEW_BUCKETS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 8];

/** Adds them to a registry; answers what wants to hear of each review. */
export const addWebhookMetrics = (registry: Registry, source: WebhookMetricsSource): OnReview => {
  const reviews = new Histogram({
    name: "xylem_webhook_review_seconds",
    help: "Admission reviews by path and outcome; failed: the API server got no verdict",
    labelNames: ["path", "outcome"],
    buckets: REVIEW_BUCKETS,
    registers: [registry],
  });
  registry.registerMetric(
    new Gauge({
      name: "xylem_webhook_certificate_end_seconds",
      help: "When the serving certificate ends, in seconds since 1970",
      registers: [],
      collect() {
        const endsMs = source.certificateEndsMs();
        if (endsMs !== null) this.set(endsMs / 1000);
      },
    }),
  );
  return ({ path, outcome, durationMs }) => {
    reviews.observe({ path, outcome }, durationMs / 1000);
  };
};
