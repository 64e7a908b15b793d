// The learning rate of each update: it rises over the first ones, so that AdamW's moments are worth something before it is at its height.

export interface Schedule {
  readonly learning_rate: number
  readonly schedule: 'constant' | 'linear' | 'cosine'
  /** Updates until the rate is at its height; 0 begins there. */
  readonly warmup_steps: number
  /** Updates in all, after which linear and cosine are at 0. */
  readonly total_steps: number
}

/** @param step counted from 1 */
export function learningRate(step: number, { learning_rate, schedule, warmup_steps, total_steps }: Schedule): number {
  if (step <= warmup_steps) return (learning_rate * step) / (warmup_steps + 1)
  if (schedule === 'constant') return learning_rate
  const progress = Math.min(1, (step - 1 - warmup_steps) / Math.max(1, total_steps - warmup_steps))
  return learning_rate * (schedule === 'linear' ? 1 - progress : (1 + Math.cos(Math.PI * progress)) / 2)
}
