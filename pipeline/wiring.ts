// Which component sends to which: what is created once and what once per pipeline.

import type { Consumer, Context, Instances, Kind, Outputs, Signal } from './component.ts'
import type { PipelinePlan, Plan, Unit } from './config.ts'
import { counted, fanOut, throughProcessors, traced, type Step } from './flow.ts'
import type { DiskQueue } from './disk/disk_queue.ts'
import type { QueueFolder } from './disk/persistent.ts'
import type { Lifecycle } from './lifecycle.ts'
import { createSender, type Sender } from './queue.ts'
import { messageOf } from './retry.ts'
import type { Sending } from './sending.ts'
import type { Telemetry } from './telemetry.ts'

/** From the exporters back to the receivers. An id is one receiver, exporter or connector, however often it is named; a processor is one per pipeline. */
export async function startPipelines(plan: Plan, telemetry: Telemetry, life: Lifecycle, stopping: AbortSignal): Promise<void> {
  const { taps } = telemetry
  const consumers = new Map<string, Consumer>()
  const running = new Map<string, (signal: Signal) => Promise<Consumer>>()

  async function startExporter(id: string): Promise<(signal: Signal) => Promise<Consumer>> {
    const context = telemetry.contextFor('exporter', id)
    const exporter = create(plan.exporters, 'exporter', id, context)
    const sending = sendingOf(plan.exporters.get(id)!)
    const senders = new Map<Signal, Sender>()
    await life.start('exporter', id, {
      start: () => exporter.start?.(),
      async shutdown() {
        await Promise.all([...senders.values()].map((sender) => sender.drain()))
        await exporter.shutdown?.()
      },
    })
    return async (signal) => {
      let sender = senders.get(signal)
      if (!sender) {
        const disk = await diskQueue(signal, sending, context)
        senders.set(signal, (sender = createSender(exporter, signal, sending, context, stopping, disk)))
      }
      return traced(`exporter/${id}/${signal}`, taps.tapped(id, signal, sender.send))
    }
  }

  async function startConnector(id: string): Promise<(signal: Signal) => Promise<Consumer>> {
    const context = telemetry.contextFor('connector', id)
    const connector = create(plan.connectors, 'connector', id, context)
    const next = outputsOf(id, (signal, consumer) => counted('connector_produced_items', signal, context, consumer))
    await life.start('connector', id, { start: () => connector.start(next), shutdown: () => connector.shutdown?.() })
    return async (signal) => counted('connector_consumed_items', signal, context, (items) => connector.consume(items, signal))
  }

  async function startBranch(id: string, signal: Signal): Promise<Consumer> {
    let consumerOf = running.get(id)
    if (!consumerOf) running.set(id, (consumerOf = await (plan.connectors.has(id) ? startConnector(id) : startExporter(id))))
    return consumerOf(signal)
  }

  async function startProcessor(id: string, pipeline: PipelinePlan): Promise<Step> {
    const context = telemetry.contextFor('processor', id, pipeline)
    const processor = create(plan.processors, 'processor', id, context)
    await life.start('processor', id, processor)
    return { processor, context, show: taps.shower(id, pipeline.signal) }
  }

  /** What a receiver or connector sends to: every pipeline that names it, by signal. */
  function outputsOf(id: string, wrap: (signal: Signal, consumer: Consumer) => Consumer): Outputs {
    const outputs: Partial<Record<Signal, Consumer>> = {}
    const named = plan.service.pipelines.filter((pipeline) => pipeline.receivers.includes(id))
    for (const { signal } of named) {
      const branches = named.filter((pipeline) => pipeline.signal === signal).map((pipeline) => consumers.get(pipeline.id)!)
      outputs[signal] ??= wrap(signal, taps.tapped(id, signal, fanOut(branches, stopping)))
    }
    return outputs
  }

  for (const pipeline of downstreamFirst(plan)) {
    const branches: Consumer[] = []
    for (const id of pipeline.exporters) branches.push(await startBranch(id, pipeline.signal))
    const steps: Step[] = []
    for (const id of pipeline.processors.toReversed()) steps.unshift(await startProcessor(id, pipeline))
    consumers.set(pipeline.id, throughProcessors(steps, pipeline.signal, fanOut(branches, stopping)))
  }
  for (const id of new Set(plan.service.pipelines.flatMap((pipeline) => pipeline.receivers))) {
    if (plan.connectors.has(id)) continue
    const receiver = create(plan.receivers, 'receiver', id, telemetry.contextFor('receiver', id))
    const next = outputsOf(id, (signal, consumer) => traced(`receiver/${id}/${signal}`, consumer))
    await life.start('receiver', id, { start: () => receiver.start(next), shutdown: () => receiver.shutdown?.() })
  }
}

export function create<K extends Kind>(units: ReadonlyMap<string, Unit<K>>, kind: K, id: string, context: Context): Instances[K] {
  const { component, config } = units.get(id)!
  try {
    return component.create(config, context)
  } catch (error) {
    throw new Error(`failed to build pipelines: failed to create "${id}" ${kind}: ${messageOf(error)}`, { cause: error })
  }
}

/** The options of sending.ts, where the exporter offers them. */
function sendingOf({ component, config }: Unit<'exporter'>): Sending | undefined {
  return 'sending_queue' in component.config ? (config as Sending) : undefined
}

/** The queue on disk that `sending_queue::storage` asks for, as the last run left it. Rollouts need none. */
async function diskQueue(signal: Signal, sending: Sending | undefined, context: Context): Promise<DiskQueue | undefined> {
  const { enabled, storage } = sending?.sending_queue ?? {}
  if (!enabled || !storage || signal === 'rollouts') return undefined
  return context.extension<QueueFolder>(storage).open(`exporter_${context.id}_${signal}`, context)
}

/** Pipelines, each after those that its connectors feed. The plan has no cycles. */
function downstreamFirst({ connectors, service: { pipelines } }: Plan): PipelinePlan[] {
  const ordered = new Set<PipelinePlan>()
  function visit(pipeline: PipelinePlan): void {
    if (ordered.has(pipeline)) return
    for (const id of pipeline.exporters) {
      if (connectors.has(id)) pipelines.filter((other) => other.receivers.includes(id)).forEach(visit)
    }
    ordered.add(pipeline)
  }
  pipelines.forEach(visit)
  return [...ordered]
}
