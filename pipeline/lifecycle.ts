// Who has started, and so must stop: in reverse order, within a time, each failure named.

import type { Kind, Log } from './component.ts'
import { messageOf } from './retry.ts'

export interface Lifecycle {
  /** Starts a component and remembers to stop it. Rejects with the Collector's words. */
  start(kind: Kind, id: string, component: Startable): Promise<void>
  /** Stops what started, the last first. Rejects, once all were told to stop, naming those that failed or took too long. */
  stop(timeoutMs: number): Promise<void>
}

interface Startable {
  start?(): Promise<void> | undefined
  shutdown?(): Promise<void> | undefined
}

interface Part {
  readonly name: string
  readonly component: Startable
}

export function lifecycle(log: Log): Lifecycle {
  const parts: Part[] = []

  async function start(kind: Kind, id: string, component: Startable): Promise<void> {
    try {
      await component.start?.()
    } catch (error) {
      log.error('Failed to start component', { error: messageOf(error), type: kind, id })
      throw new Error(`cannot start pipelines: failed to start "${id}" ${kind}: ${messageOf(error)}`, { cause: error })
    }
    parts.push({ name: `${kind} "${id}"`, component })
  }

  async function stop(timeoutMs: number): Promise<void> {
    const deadline = performance.now() + timeoutMs
    const problems: string[] = []
    for (const part of parts.splice(0).reverse()) {
      const problem = await outcome(part, deadline)
      if (problem) problems.push(`${part.name} ${problem}`)
    }
    if (problems.length) throw new Error(`shutdown was not clean: ${problems.join('; ')}`)
  }

  return { start, stop }
}

/** What went wrong, if anything. Past the deadline a component is still told to stop, but not waited for. */
async function outcome({ component }: Part, deadline: number): Promise<string | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, deadline - performance.now()), 'did not finish within shutdown_timeout')
  })
  const stopped = (async () => component.shutdown?.())().then(
    () => undefined,
    (error: unknown) => `failed: ${messageOf(error)}`,
  )
  return Promise.race([stopped, late]).finally(() => clearTimeout(timer))
}
