// Follows the live version of a policy: asks ClickHouse for it, has it taken, and says so when it cannot be.

import { setTimeout as sleep } from 'node:timers/promises'

import type { Context } from '../pipeline/component.ts'
import { messageOf } from '../pipeline/retry.ts'
import type { Policies, PolicyVersion } from '../storage/policies.ts'

export interface Following {
  stop(): Promise<void>
}

/** With the time to load it, a published version has to answer within a second. */
const POLL_MS = 250

/**
 * @param take makes a version the one that answers; rejects when it cannot be loaded, and then the one before goes on
 * @param missing called as long as no version is live
 */
export function followLive(
  policies: Policies,
  policy: string,
  take: (version: PolicyVersion) => Promise<void>,
  missing: () => Promise<void>,
  { count, log }: Pick<Context, 'count' | 'log'>,
): Following {
  const stopping = new AbortController()
  const rejected = new Set<number>()
  let current: number | undefined

  async function look(): Promise<void> {
    const live = await policies.live(policy)
    if (!live) return missing()
    if (live.version === current || rejected.has(live.version)) return
    try {
      await take(live)
      current = live.version
      count('leyden_policy_versions_taken', 1, { policy })
      log.info('A version of a policy answers from now on', { policy, version: live.version })
    } catch (error) {
      rejected.add(live.version)
      count('leyden_policy_versions_rejected', 1, { policy })
      log.error('A version of a policy cannot be loaded; the one before goes on', {
        policy,
        version: live.version,
        error: messageOf(error),
      })
      await giveBack(live.version)
    }
  }

  /** Everybody else is to go on with what answers here. */
  async function giveBack(version: number): Promise<void> {
    if ((await policies.live(policy))?.version !== version) return
    if (current === undefined) await policies.setStatus(policy, version, 'retired')
    else await policies.setStatus(policy, current, 'live')
  }

  async function follow(): Promise<void> {
    while (!stopping.signal.aborted) {
      // While ClickHouse is away, what answers goes on.
      await look().catch((error: unknown) => log.debug('The live version cannot be asked for', { policy, error: messageOf(error) }))
      await sleep(POLL_MS, undefined, { signal: stopping.signal }).catch(() => {})
    }
  }

  const done = follow()
  return {
    async stop() {
      stopping.abort()
      await done
    },
  }
}
