// Refuses items while the process uses too much memory: senders keep them and come again. It belongs first in a pipeline. What is measured is
// resident memory, which containers are killed for and buffers are part of, and V8's heap against its own limit, at which Node ends.

import { totalmem } from 'node:os'
import { getHeapStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { processor, Refused } from '../pipeline/component.ts'
import { duration, number } from '../pipeline/schema.ts'
import { sizeOf, UNIT } from '../pipeline/size.ts'

const MIB = 1_048_576
/** Above the soft limit garbage is collected at most so often, above the hard one with every check. */
const SOFT_COLLECT_MS = 10_000

export default processor({
  type: 'memory_limiter',
  summary: 'Refuses items while memory is short, so that senders come again instead of the process being killed.',
  signals: ['traces', 'logs'],
  config: {
    check_interval: duration('How often memory is measured.', { default: '1s' }),
    limit_mib: number('Hard limit: the most memory that the process should use, in MiB.', {
      default: 0,
      example: 512,
      min: 0,
      integer: true,
    }),
    spike_limit_mib: number('Items are refused above the hard limit less this, the soft limit; 0: a fifth of the hard limit.', {
      default: 0,
      min: 0,
      integer: true,
    }),
    limit_percentage: number("Hard limit as a share of the container's memory, else of the machine's; `limit_mib` goes before it.", {
      default: 0,
      min: 0,
      max: 100,
    }),
    spike_limit_percentage: number('As `spike_limit_mib`, for `limit_percentage`.', { default: 0, min: 0, max: 100 }),
  },

  check({ check_interval, limit_mib, spike_limit_mib, limit_percentage, spike_limit_percentage }) {
    const wrong = [
      check_interval <= 0 && "'check_interval' must be greater than zero",
      limit_mib === 0 && limit_percentage === 0 && "'limit_mib' or 'limit_percentage' must be greater than zero",
      limit_mib > 0 && spike_limit_mib >= limit_mib && "'spike_limit_mib' must be smaller than 'limit_mib'",
      limit_percentage > 0 &&
        spike_limit_percentage >= limit_percentage &&
        "'spike_limit_percentage' must be smaller than 'limit_percentage'",
    ]
    return wrong.filter((message) => message !== false).map((message) => ({ message }))
  },

  create(config, context) {
    const { hard, soft } = limits(config)
    const unit = UNIT[context.signal ?? 'traces']
    let timer: NodeJS.Timeout | undefined
    let refusing = false
    let collected = -Infinity

    /** Used of what may be: the resident memory's share, or the heap's. */
    function share(): number {
      const { used_heap_size, heap_size_limit } = getHeapStatistics()
      return Math.max(process.memoryUsage.rss() / hard, used_heap_size / heap_size_limit)
    }

    function check(): void {
      let used = share()
      if (used > 1 || (used > soft / hard && performance.now() - collected > SOFT_COLLECT_MS)) {
        collectGarbage()
        collected = performance.now()
        used = share()
      }
      if (used > soft / hard === refusing) return
      refusing = used > soft / hard
      const fields = {
        cur_mem_mib: Math.round(process.memoryUsage.rss() / MIB),
        soft_limit_mib: Math.round(soft / MIB),
        heap_mib: Math.round(getHeapStatistics().used_heap_size / MIB),
        heap_limit_mib: Math.round(getHeapStatistics().heap_size_limit / MIB),
      }
      if (refusing) context.log.warn('Memory usage is above soft limit. Refusing data.', fields)
      else context.log.info('Memory usage back within limits. Resuming normal operation.', fields)
    }

    return {
      async start() {
        check()
        timer = setInterval(check, config.check_interval)
      },
      process(item) {
        const count = sizeOf([item], 'items')
        context.count(`processor_memory_limiter_${refusing ? 'refused' : 'accepted'}_${unit}`, count)
        if (refusing) throw new Refused('data refused due to high memory usage')
        return item
      },
      async shutdown() {
        clearInterval(timer)
      },
    }
  },
})

type Limits = Readonly<Record<'limit_mib' | 'spike_limit_mib' | 'limit_percentage' | 'spike_limit_percentage', number>>

/** In bytes. */
function limits({ limit_mib, spike_limit_mib, limit_percentage, spike_limit_percentage }: Limits): { hard: number; soft: number } {
  const percent = available() / 100
  const hard = limit_mib > 0 ? limit_mib * MIB : limit_percentage * percent
  const spike = limit_mib > 0 ? spike_limit_mib * MIB : spike_limit_percentage * percent
  return { hard, soft: hard - (spike || hard / 5) }
}

/** The container's limit (cgroup), if it has one below the machine's memory. */
function available(): number {
  const constrained = process.constrainedMemory()
  return constrained > 0 && constrained < totalmem() ? constrained : totalmem()
}

/** Without it, memory that nobody uses any more would count until V8 happens to collect it. */
function collectGarbage(): void {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  gc()
}
