// A whole Leyden with a trainer, and an agent that solves tasks with whatever version is live: for tests of training.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { openDecoder } from '../policy/decoder.ts'
import { openTokenizer } from '../policy/tokenizer.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { policiesOf, type Policies, type PolicyVersion } from '../storage/policies.ts'
import { BASE, solve, taskOf, type Sampler, type Task } from './calculator.ts'
import { startLeyden, type Leyden } from './leyden.ts'
import { seeded } from './random.ts'
import { endOf } from './spans.ts'

const GROUP_SIZE = 8

export interface Arena {
  readonly leyden: Leyden
  readonly storage: OpenStorage
  readonly policies: Policies
  /** Resolves when a version at least as new is live, and samples from it from then on. */
  live(version: number): Promise<PolicyVersion>
  /** Sends a step's rollouts: so many groups that teach something. Resolves when they are stored. */
  play(step: number, groups: number): Promise<void>
  close(): Promise<void>
}

/** `trainer`: its options, beside base and folder; `seed`: of tasks and sampling. */
export async function openArena(trainer: object, seed: number): Promise<Arena> {
  const policies_dir = await mkdtemp(join(tmpdir(), 'leyden-policies-'))
  const extensions = { trainer: { base: BASE, policies_dir, kernels: 'decomp', ...trainer } }
  const processors = { credit_assignment: { method: 'identical' } }
  const leyden = await startLeyden(JSON.stringify({ processors, extensions, service: { extensions: ['clickhouse_storage', 'trainer'] } }))
  const storage = await openStorage({ url: `embedded:${leyden.folder}` })
  const policies = policiesOf(storage.client)
  const sampler: Sampler = { decoder: await openDecoder({ kernels: 'decomp', max_running: 64 }), tokenizer: await openTokenizer(BASE) }

  async function live(version: number, ms = 120_000): Promise<PolicyVersion> {
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

  /** Groups that all succeed or all fail teach nothing and are passed over by the trainer: others are played in their place. */
  async function play(step: number, groups: number): Promise<void> {
    const random = seeded(seed * 1_000 + step)
    for (let [told, played] = [0, 0]; told < groups;) {
      const names = Array.from({ length: groups - told }, () => `${step}/${played++}`)
      const solved = await Promise.all(names.map((group) => playGroup(group, taskOf(random), random(2 ** 20))))
      const flat = solved.flat()
      await leyden.post('traces', {
        resourceSpans: flat.flatMap(({ document }) => (document as { resourceSpans: object[] }).resourceSpans),
      })
      const ends = flat.map(({ rollout }) => endOf(rollout) as { resourceLogs: object[] })
      await leyden.post('logs', { resourceLogs: ends.flatMap(({ resourceLogs }) => resourceLogs) })
      told += solved.filter((group) => new Set(group.map(({ success }) => success)).size > 1).length
    }
  }

  const playGroup = (group: string, task: Task, seed: number) =>
    Promise.all(
      Array.from({ length: GROUP_SIZE }, async (_, i) => {
        const rollout = `${group}/${i}`
        return { rollout, ...(await solve(sampler, task, { rollout, group, group_size: GROUP_SIZE, seed: seed * GROUP_SIZE + i })) }
      }),
    )

  return {
    ...{ leyden, storage, policies, live, play },
    async close() {
      await sampler.decoder.close()
      await storage.close()
      await leyden.remove()
      await rm(policies_dir, { recursive: true, force: true })
    },
  }
}
