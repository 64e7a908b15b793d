import { afterAll, beforeAll, expect, test } from 'vitest'

import type { CreditSpec, Rollout } from '../data/rollout.ts'
import { rollout } from '../test/conformance.ts'
import { testStorage, type TestStorage } from '../test/storage.ts'
import { trainingOf, type TrainingStep } from './training.ts'

let storage: TestStorage
beforeAll(async () => {
  storage = await testStorage({ settle_timeout: 300 })
})
afterAll(() => storage.close())

const credit: CreditSpec = {
  ...{ method: 'identical', gamma: 1, lambda: 1, baseline: 'auto', normalize: 'none' },
  ...{ min_group: 2, reward_range: [0, 1], include_steps: false },
}

interface Sampled {
  policy: string
  version?: number | null
  mode?: Rollout['mode']
}

/** A rollout of two calls, of which the second extends the first, as credit_assignment leaves it. */
function sampled(rollout_id: string, group_id: string, outcome: number, { policy, version = 0, mode = 'train' }: Sampled): Rollout {
  const given = { attempt_id: '', task_id: '', group_size: 2, group_id, mode, outcome, credit, covered_until: Date.now() }
  const one = rollout({ rollout_id, calls: 2, reward: outcome, ...given })
  const tokens = [
    { prompt: [1, 2], response: [3, 4], logprobs: [-0.5, NaN] },
    { prompt: [1, 2, 3, 4, 5], response: [6], logprobs: [-0.5] },
  ]
  return {
    ...one,
    transitions: one.transitions.map((t, i) => ({
      ...{ ...t, policy, policy_version: version, return: outcome, weight: mode === 'val' ? 0 : 1, parent_step: i - 1 },
      call: {
        ...t.call,
        params: { temperature: 1 },
        tokens: { ...tokens[i]!, source: 'attribute' },
      },
    })),
  }
}

async function commit(...rollouts: Rollout[]): Promise<void> {
  await storage.writeRevision(rollouts)
  await storage.commit(rollouts)
}

/** Commits two rollouts of different outcome and waits for their credit. */
async function group(id: string, of: Sampled, outcomes: readonly [number, number] = [1, 0]): Promise<void> {
  const before = await creditsOf(id)
  await commit(sampled(`${id}a`, id, outcomes[0], of), sampled(`${id}b`, id, outcomes[1], of))
  await expect.poll(() => creditsOf(id), { timeout: 5_000 }).toBeGreaterThan(before)
}
const creditsOf = async (id: string) => (await storage.rows(`SELECT 1 FROM credits WHERE group_id = '${id}'`)).length

const use = (rows: Awaited<ReturnType<ReturnType<typeof trainingOf>['transitions']>>) => rows.map((row) => ({ ...row, epoch: 1 }))

test('a credited group is ready with the oldest version that sampled it, and its turns come with their whole prompts', async () => {
  const training = trainingOf(storage.client, 'plain')
  await group('plain', { policy: 'plain', version: 3 })
  expect(await training.ready(0)).toEqual([{ group_id: 'plain', credit_version: 1, oldest: 3, signal: 0.5, rollouts: 2 }])
  const rows = await training.transitions(['plain'], 1)
  expect(rows.map(({ rollout_id, step, advantage }) => [rollout_id, step, advantage])).toEqual([
    ['plaina', 0, 0.5],
    ['plaina', 1, 0.5],
    ['plainb', 0, -0.5],
    ['plainb', 1, -0.5],
  ])
  expect(rows[0]!.response_logprobs).toEqual([-0.5, NaN])
  expect(rows[1]).toMatchObject({
    ...{ prompt_token_ids: [1, 2, 3, 4, 5], response_token_ids: [6], response_logprobs: [-0.5], token_source: 'attribute' },
    ...{ policy_version: 3, credit_version: 1, outcome: 1, params: { temperature: 1 } },
  })
  expect(await trainingOf(storage.client, 'other').ready(0)).toEqual([])
})

test('the oldest version comes first, and one that is too old does not come', async () => {
  const training = trainingOf(storage.client, 'aged')
  for (const version of [5, 2, 4]) await group(`aged${version}`, { policy: 'aged', version })
  expect((await training.ready(3)).map(({ oldest }) => oldest)).toEqual([4, 5])
  expect((await training.ready(null)).map(({ oldest }) => oldest)).toEqual([2, 4, 5])
})

test('rows without a version come only where every version is taken', async () => {
  const training = trainingOf(storage.client, 'unversioned')
  await group('unversioned', { policy: 'unversioned', version: null })
  expect(await training.ready(0)).toEqual([])
  expect(await training.ready(null)).toMatchObject([{ group_id: 'unversioned', oldest: null }])
})

test('what was taken does not come again, except to the update that it was taken for', async () => {
  const training = trainingOf(storage.client, 'once')
  await group('once2', { policy: 'once' })
  await group('once1', { policy: 'once' })
  const groups = ['once2', 'once1']
  const rows = await training.transitions(groups, 7)
  await training.take(7, use(rows))
  expect(await training.ready(0)).toEqual([])
  expect(await training.taken(7)).toEqual(groups)
  expect(await training.taken(8)).toEqual([])
  expect(await training.transitions(groups, 7)).toEqual(rows)
  expect(await training.transitions(groups, 8)).toEqual([])
})

test('credited again, a group that was used is not used once more; a rollout that came late is', async () => {
  const training = trainingOf(storage.client, 'again')
  await group('again', { policy: 'again' })
  await training.take(1, use(await training.transitions(['again'], 1)))
  await group('again', { policy: 'again' }, [0.5, 0])
  expect(await training.ready(0)).toEqual([])
  await commit(sampled('againc', 'again', 1, { policy: 'again' }))
  await expect.poll(() => training.ready(0), { timeout: 5_000 }).toHaveLength(1)
  expect((await training.transitions(['again'], 2)).map(({ rollout_id }) => rollout_id)).toEqual(['againc', 'againc'])
})

test('a group of which a row is not credited yet, or credited anew, waits', async () => {
  const training = trainingOf(storage.client, 'half')
  await group('half', { policy: 'half' })
  await storage.client.command({ query: "UPDATE transition_rows SET credit_version = 2 WHERE rollout_id = 'halfa'" })
  expect(await training.ready(0)).toEqual([])
  await storage.client.command({ query: "UPDATE transition_rows SET credit_version = 2 WHERE rollout_id = 'halfb'" })
  expect(await training.ready(0)).toEqual([])
})

test('a group of which a rollout never comes is not ready, and holds up no other', async () => {
  await commit(sampled('alone', 'unfinished', 1, { policy: 'unfinished' }))
  await group('finished', { policy: 'unfinished' })
  const ready = async () => (await trainingOf(storage.client, 'unfinished').ready(0)).map(({ group_id }) => group_id)
  expect(await ready()).toEqual(['finished'])
})

test('rollouts of mode val are never trained on, and tell how a version does', async () => {
  const training = trainingOf(storage.client, 'judged')
  await commit(sampled('judged1', 'judged', 1, { policy: 'judged', version: 4, mode: 'val' }))
  await commit(sampled('judged2', 'judged', 0.25, { policy: 'judged', version: 4, mode: 'val' }))
  await expect.poll(() => creditsOf('judged'), { timeout: 5_000 }).toBe(1)
  expect(await training.ready(null)).toEqual([])
  expect(await training.transitions(['judged'], 1)).toEqual([])
  expect(await training.evaluations()).toEqual([{ version: 4, rollouts: 2, reward: 0.625, success: 0.5 }])
})

test('a step that is recorded again replaces what was said of it', async () => {
  const training = trainingOf(storage.client, 'told')
  const step: TrainingStep = {
    ...{
      step: 1,
      algorithm: 'grpo',
      learning_rate: 1e-3,
      groups: 2,
      rollouts: 4,
      transitions: 8,
      rows: 4,
      tokens: 100,
      trained_tokens: 40,
    },
    ...{ dropped_groups: 1, refused: { no_token_ids: 2 }, staleness: 0.5, reward: 0.5, success: 0.5, loss: 0.1, kl: 0.01, entropy: 1.2 },
    ...{
      clip_fraction: 0,
      weight_mean: 1,
      weight_ess: 1,
      weight_truncated: 0,
      grad_norm: 2,
      metrics: { value_loss: 0.3 },
      waited: 1,
      seconds: 2,
    },
  }
  await training.record({ ...step, reward: 0 })
  await training.record(step)
  expect(await training.steps()).toEqual([step])
})
