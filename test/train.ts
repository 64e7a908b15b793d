// A whole Leyden with a trainer, and an agent that solves tasks with whatever version is live: for tests of training.

import { setTimeout as sleep } from 'node:timers/promises'

import { openDecoder } from '../policy/decoder.ts'
import { openTokenizer } from '../policy/tokenizer.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { policiesOf, type Policies, type PolicyVersion } from '../storage/policies.ts'
import { BASE, solve, taskOf, type Sampler } from './calculator.ts'
import { startLeyden, type Leyden } from './leyden.ts'
import { seeded } from './random.ts'
import { endOf } from './spans.ts'

export const GROUP_SIZE = 8

export interface Arena {
  readonly leyden: Leyden
  readonly storage: OpenStorage
  readonly policies: Policies
  /** Resolves when a version at least as new is live, and samples from it from then on. */
  live(version: number): Promise<PolicyVersion>
  /** Sends a step's rollouts; resolves when they are stored. */
  play(step: number, groups: number, mode?: 'train' | 'val'): Promise<void>
  close(): Promise<void>
}

/** `more`: configuration beside the usual; `seed`: of tasks and sampling. */
export async function openArena(more: string, seed: number): Promise<Arena> {
  const leyden = await startLeyden(more)
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const policies = policiesOf(storage.client)
  const sampler: Sampler = { decoder: await openDecoder({ kernels: 'decomp', max_running: 64 }), tokenizer: await openTokenizer(BASE) }

  async function live(version: number, ms = 30_000): Promise<PolicyVersion> {
    for (const until = Date.now() + ms; ; await sleep(100)) {
      const found = await policies.live('default')
      if (found && found.version >= version) {
        if (!sampler.decoder.state().loaded.includes(found.version)) await sampler.decoder.load(found.version, found.path)
        sampler.decoder.promote(found.version)
        return found
      }
      if (Date.now() > until) throw new Error(`version ${version} is not live after ${ms} ms`)
    }
  }

  async function play(step: number, groups: number, mode: 'train' | 'val' = 'train'): Promise<void> {
    const random = seeded(seed * 1_000 + step)
    const tasks = Array.from({ length: groups }, () => taskOf(random))
    const rollouts = tasks.flatMap((task, g) =>
      Array.from({ length: mode === 'val' ? 1 : GROUP_SIZE }, (_, i) => {
        const group = `${mode} ${step}/${g}`
        return { task, rollout: `${group}/${i}`, group, seed: (seed * 1_000 + step) * 1_000 + g * GROUP_SIZE + i }
      }),
    )
    const solved = await Promise.all(
      rollouts.map(({ task, ...about }) => solve(sampler, task, { ...about, group_size: GROUP_SIZE, greedy: mode === 'val' })),
    )
    await leyden.post('traces', {
      resourceSpans: solved.flatMap(({ document }) => (document as { resourceSpans: object[] }).resourceSpans),
    })
    const ends = rollouts.map(({ rollout }) => endOf(rollout) as { resourceLogs: object[] })
    await leyden.post('logs', { resourceLogs: ends.flatMap(({ resourceLogs }) => resourceLogs) })
  }

  return {
    ...{ leyden, storage, policies, live, play },
    async close() {
      await sampler.decoder.close()
      await storage.close()
      await leyden.remove()
    },
  }
}
