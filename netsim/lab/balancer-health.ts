/** When a load balancer takes a target out and puts it back, as a pure step. */

export interface HealthPolicy {
  /** How long a target must fail before it gets no more packets. */
  readonly healthDelayMs: number;
  /** How long it must answer before it gets packets again. */
  readonly recoverDelayMs: number;
}

/** What the balancer believes of one target, and since when the probes say otherwise (null: they agree). */
export interface TargetHealth {
  readonly isServing: boolean;
  readonly contrarySinceMs: number | null;
}

/** A target before its first probe. */
export const healthAtStart: TargetHealth = { isServing: true, contrarySinceMs: null };

/** Returns what to believe after one more probe. */
export const stepHealth = (
  health: TargetHealth,
  probe: { readonly isHealthy: boolean; readonly nowMs: number },
  policy: HealthPolicy,
): TargetHealth => {
  if (probe.isHealthy === health.isServing) return { ...health, contrarySinceMs: null };
  const contrarySinceMs = health.contrarySinceMs ?? probe.nowMs;
  const delayMs = health.isServing ? policy.healthDelayMs : policy.recoverDelayMs;
  if (probe.nowMs - contrarySinceMs < delayMs) return { ...health, contrarySinceMs };
  return { isServing: probe.isHealthy, contrarySinceMs: null };
};
