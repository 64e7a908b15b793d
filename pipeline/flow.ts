// How items move between components: through processors in order, and to every branch of a fan-out.

import { SpanStatusCode, trace } from '@opentelemetry/api'

import { giveWay } from '../data/give_way.ts'
import { Permanent, Refused, type Consumer, type Context, type Item, type Processor, type Signal } from './component.ts'
import { GaveUp, messageOf, retry } from './retry.ts'
import type { Retrying } from './sending.ts'
import { sizeOf } from './size.ts'

export interface Step {
  readonly processor: Processor
  readonly context: Context
  /** Is shown what leaves the processor. */
  readonly show: (items: readonly Item[]) => void
}

/** Sends items through the processors, one by one and in order, and what they leave of them to `next`. */
export function throughProcessors(steps: readonly Step[], signal: Signal, next: Consumer): Consumer {
  if (steps.length === 0) return next
  const labels = { otel_signal: signal }
  return async (items) => {
    let current = items
    for (const { processor, context, show } of steps) {
      context.count('processor_incoming_items', sizeOf(current, 'items'), labels)
      const kept: Item[] = []
      for (const item of current) {
        const out = await process(processor, context, item)
        if (out !== null) kept.push(out)
        await giveWay()
      }
      context.count('processor_outgoing_items', sizeOf(kept, 'items'), labels)
      show(kept)
      current = kept
    }
    if (current.length) await next(current)
  }
}

/** A processor is a function of its item: unless it refuses, what failed once would fail again. */
async function process(processor: Processor, context: Context, item: Item): Promise<Item | null> {
  try {
    return (await processor.process(item)) as Item | null
  } catch (error) {
    if (error instanceof Refused || error instanceof Permanent) throw error
    context.count('leyden_processor_failed_items', sizeOf([item], 'items'))
    context.log.error('A processor failed.', { error: messageOf(error) })
    throw new Permanent(`processor "${context.id}" failed: ${messageOf(error)}`, { cause: error })
  }
}

/** How a fan-out tries a branch again that failed while others took the items: within the patience of most clients. */
const BRANCH_RETRY: Retrying = {
  enabled: true,
  initial_interval: 250,
  randomization_factor: 0.5,
  multiplier: 1.5,
  max_interval: 5_000,
  max_elapsed_time: 30_000,
}

/**
 * Sends items to every branch at once. When all of them fail, the caller is told at once and may send again. When some
 * took the items, only those that failed are tried again, so that a passing failure of one does not send the items twice to
 * the others. Only when a branch is given up does the caller get its error; a client that then sends again repeats itself to the
 * branches that had taken the items, where spans and rollouts count once by their ids.
 */
export function fanOut(branches: readonly Consumer[], stopping: AbortSignal): Consumer {
  if (branches.length === 1) return branches[0]!
  return async (items) => {
    const first = await Promise.allSettled(branches.map((branch) => branch(items)))
    if (first.every(failed)) throw mostHopeful(first)
    const last = await Promise.allSettled(
      first.map((result, i) => (failed(result) ? again(() => branches[i]!(items), result.reason, stopping) : undefined)),
    )
    if (last.some(failed)) throw mostHopeful(last)
  }
}

const failed = (result: PromiseSettledResult<unknown>): result is PromiseRejectedResult => result.status === 'rejected'

/** An error after which sending again may help, if there is one: better twice than never. */
function mostHopeful(results: readonly PromiseSettledResult<unknown>[]): unknown {
  const reasons = results.filter(failed).map((result) => result.reason as unknown)
  return reasons.find((reason) => !(reason instanceof Permanent)) ?? reasons[0]
}

/** Retries what has already failed once. */
async function again(attempt: () => Promise<void>, error: unknown, stopping: AbortSignal): Promise<void> {
  if (error instanceof Permanent || error instanceof GaveUp) throw error
  let tried = false
  await retry(
    async () => {
      if (tried) return attempt()
      tried = true
      throw error
    },
    BRANCH_RETRY,
    stopping,
  )
}

/** Counts what passes by outcome, e.g. `connector_consumed_items{otelcol_component_outcome="refused"}`. */
export function counted(name: string, signal: Signal, context: Context, consumer: Consumer): Consumer {
  return async (items) => {
    const count = (outcome: string) =>
      context.count(name, sizeOf(items, 'items'), { otel_signal: signal, otelcol_component_outcome: outcome })
    try {
      await consumer(items)
    } catch (error) {
      count(error instanceof Refused ? 'refused' : 'failure')
      throw error
    }
    count('success')
  }
}

const tracer = trace.getTracer('leyden')

/** One span for each request, or for those that came together, where service::telemetry::traces asks for them. */
export function traced(name: string, consumer: Consumer): Consumer {
  return (items) =>
    tracer.startActiveSpan(name, async (span) => {
      try {
        await consumer(items)
      } catch (error) {
        span.setStatus({ code: SpanStatusCode.ERROR, message: messageOf(error) })
        throw error
      } finally {
        span.end()
      }
    })
}
