// The options that exporters share, with the Collector's keys and defaults. An exporter whose `config` has
// `...sending` (and `check: checkSending`) gets the timeout, the retries and the queue of queue.ts from the engine.

import { duration, extensionId, flag, group, number, oneOf } from './schema.ts'
import type { Config } from './schema.ts'

const retry_on_failure = group(
  {
    enabled: flag('Whether what failed is tried again.', { default: true }),
    initial_interval: duration('Wait before the first retry.', { default: '5s' }),
    randomization_factor: number('Each wait is drawn from 1 ± this times its length.', { default: 0.5, min: 0, max: 1 }),
    multiplier: number('Each wait is so many times as long as the one before.', { default: 1.5, min: 1 }),
    max_interval: duration('The longest wait.', { default: '30s' }),
    max_elapsed_time: duration('After so long a request is given up; 0s: never. One on disk goes back there.', { default: '5m' }),
  },
  'Retries of requests that failed for a reason that may pass.',
)

const batch = group(
  {
    flush_timeout: duration('The longest that a request waits for others to join it.', { default: '200ms', min: 1 }),
    min_size: number('A batch of this size is sent at once.', { default: 8192, min: 0, integer: true }),
    max_size: number('No batch is larger, unless a single request already is; 0: no limit.', { default: 0, min: 0, integer: true }),
    sizer: oneOf(['items', 'bytes'], 'What the sizes of a batch count.', { default: 'items' }),
  },
  'Joins requests into larger ones; off unless it is written.',
  { default: null },
)

const sending_queue = group(
  {
    enabled: flag('Whether requests queue; without a queue each is sent as it comes.', { default: true }),
    num_consumers: number('Requests (or batches) that are sent at the same time.', { default: 10, integer: true }),
    queue_size: number('How much may be queued or under way, counted by `sizer`.', { default: 1000, integer: true }),
    sizer: oneOf(['requests', 'items', 'bytes'], 'What `queue_size` counts.', { default: 'requests' }),
    wait_for_result: flag(
      'Whether the sender waits until its request is exported. When false, a crash loses what is queued in memory. Rollouts are always ' +
        'waited for, since they count as finished only when they are exported.',
      { default: true },
    ),
    block_on_overflow: flag('Whether a full queue makes the sender wait, instead of refusing.', { default: false }),
    storage: extensionId(
      'storage',
      'The file_storage extension that keeps the queue on disk: a request is acknowledged when it is there, and tried until it is ' +
        'delivered or refused for good, after a restart too. Rollouts need none: they are made again from their spans.',
      { default: null },
    ),
    batch,
  },
  'The queue in front of the exporter.',
)

export const sending = {
  timeout: duration('How long one attempt may take; 0s: as long as it takes.', { default: '5s' }),
  retry_on_failure,
  sending_queue,
}
export type Sending = Config<typeof sending>
export type Retrying = Sending['retry_on_failure']

/** What the options' own types cannot say, in the Collector's words. */
export function checkSending({ retry_on_failure: retry, sending_queue: queue }: Sending): { path: string[]; message: string }[] {
  const problems: { path: string[]; message: string }[] = []
  const complain = (path: string[], wrong: boolean, message: string) => wrong && problems.push({ path, message })

  const { initial_interval, max_elapsed_time } = retry
  complain(
    ['retry_on_failure'],
    retry.enabled && max_elapsed_time > 0 && max_elapsed_time < initial_interval,
    "'max_elapsed_time' must not be less than 'initial_interval'",
  )
  if (!queue.enabled) return problems

  complain(['sending_queue'], queue.num_consumers <= 0, '`num_consumers` must be positive')
  complain(['sending_queue'], queue.queue_size <= 0, '`queue_size` must be positive')
  if (queue.batch) {
    const { min_size, max_size, sizer } = queue.batch
    complain(
      ['sending_queue'],
      sizer === queue.sizer && min_size > queue.queue_size,
      '`min_size` must be less than or equal to `queue_size`',
    )
    complain(
      ['sending_queue', 'batch'],
      max_size > 0 && max_size < min_size,
      `\`max_size\` (${max_size}) must be greater or equal to \`min_size\` (${min_size})`,
    )
  }
  return problems
}
