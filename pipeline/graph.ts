// From a plan to running components and back: what starts and stops first, and how one plan takes the place of another.

import { setMaxListeners } from 'node:events'
import { isDeepStrictEqual } from 'node:util'

import type { Extension } from './component.ts'
import type { Plan } from './config.ts'
import { lifecycle } from './lifecycle.ts'
import { messageOf } from './retry.ts'
import type { Telemetry } from './telemetry.ts'
import { create, startPipelines } from './wiring.ts'

export interface Running {
  /**
   * Stops what runs and starts the new plan, which was validated before. True when it runs; false when it could not start and
   * the last one was started again (the log says why). Rejects when neither starts: then nothing runs.
   */
  reload(plan: Plan): Promise<boolean>
  /**
   * Receivers stop first, then each component before those it sends to, so that what was accepted is exported. Rejects when
   * something failed or `shutdown_timeout` passed, naming it.
   */
  shutdown(): Promise<void>
}

type Stop = () => Promise<void>

/** Rejects, in the Collector's words, when a component cannot start; those that had started are stopped again. */
export async function startGraph(plan: Plan, telemetry: Telemetry): Promise<Running> {
  const { log, metrics } = telemetry
  let stop = await start(plan, telemetry)
  let stopped: Promise<void> | undefined
  let turn: Promise<unknown> = Promise.resolve()

  /** A signal may come while a reload is under way: one after the other. */
  function inTurn<T>(job: () => Promise<T>): Promise<T> {
    const result = turn.then(job, job)
    turn = result
    return result
  }

  async function replace(next: Plan): Promise<boolean> {
    if (isDeepStrictEqual(next, plan)) return true
    log.warn('Config updated, restart service')
    if (!isDeepStrictEqual(next.service.telemetry, plan.service.telemetry)) {
      log.warn('service::telemetry has changed, which takes effect at the next start of the process')
    }
    await stop().catch((error: unknown) => log.error(messageOf(error)))
    try {
      stop = await start(next, telemetry)
      plan = next
      return true
    } catch (error) {
      metrics.counter('leyden_config_reload_failures', {}).total++
      log.error('The new configuration does not start; going back to the last one.', { error: messageOf(error) })
      stop = await start(plan, telemetry)
      return false
    }
  }

  return {
    reload: (next) => inTurn(() => replace(next)),
    shutdown: () => (stopped ??= inTurn(() => stop())),
  }
}

/** Extensions start first, receivers last. */
async function start(plan: Plan, telemetry: Telemetry): Promise<Stop> {
  const { log } = telemetry
  const life = lifecycle(log)
  const extensions: Extension[] = []
  const stopping = new AbortController()
  // Every request that waits for a retry listens to it.
  setMaxListeners(0, stopping.signal)

  async function stop(): Promise<void> {
    log.info('Starting shutdown...')
    for (const extension of extensions) extension.notReady?.()
    stopping.abort()
    try {
      await life.stop(plan.service.shutdown_timeout)
    } finally {
      telemetry.forget()
    }
    log.info('Shutdown complete.')
  }

  try {
    for (const id of plan.service.extensions) {
      const extension = create(plan.extensions, 'extension', id, telemetry.contextFor('extension', id))
      telemetry.extensions.set(id, extension)
      await life.start('extension', id, extension)
      extensions.push(extension)
    }
    await startPipelines(plan, telemetry, life, stopping.signal)
  } catch (error) {
    await stop().catch((problem: unknown) => log.error(messageOf(problem)))
    throw error
  }
  for (const extension of extensions) extension.ready?.()
  log.info('Everything is ready. Begin running and processing data.')
  return stop
}
