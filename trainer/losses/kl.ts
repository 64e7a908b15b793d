// Estimators of KL(π‖π_ref) from one sampled token (Schulman, "Approximating KL divergence", 2020), and their derivatives by log π.
// In a reward k1 is right. In a loss it is not: its expected derivative is zero; that of k3 is the derivative of the KL the other way round.
// k2 and ρ·k3 have the derivative of the KL that is meant (fixtures/rl/05).

export interface Estimate {
  readonly value: number
  /** Derivative by the log-probability. */
  readonly slope: number
}

export const k1 = (logprob: number, reference: number): number => logprob - reference

export function k2(logprob: number, reference: number): Estimate {
  const difference = logprob - reference
  return { value: difference ** 2 / 2, slope: difference }
}

/** Cut off where e^x would drown everything else: at a log-ratio of 20, and at 10 nats. */
export function k3(logprob: number, reference: number): Estimate {
  const difference = Math.min(20, Math.max(-20, reference - logprob))
  const value = Math.exp(difference) - difference - 1
  if (value > 10) return { value: 10, slope: 0 }
  return { value, slope: 1 - Math.exp(difference) }
}

/** DeepSeek-V3.2's unbiased estimate. ρ is a function of log π and is differentiated as well. */
export function rhoK3(logprob: number, reference: number, ratio: number): Estimate {
  const { value, slope } = k3(logprob, reference)
  return { value: ratio * value, slope: ratio * (value + slope) }
}
