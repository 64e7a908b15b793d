// The training run: waits for groups, updates the policy, checks itself, writes what happened and publishes versions. Everything that
// counts is in ClickHouse and in the folder of the last version, so that it may be killed at any moment: it goes on from that version,
// and takes for each step after it the same groups that it took then.
//
// A version's number is that of the step that made it. In a step, the order of writing is: rows that it uses, then (the update is made)
// the version's files, the step's figures, the version's row.

import { setTimeout as sleep } from 'node:timers/promises'

import type { ClickHouseClient } from '@clickhouse/client'

import type { CreditSpec } from '../data/rollout.ts'
import type { Learner, LearnerOptions } from '../policy/learning.ts'
import { uniforms } from '../policy/sampling.ts'
import { policiesOf, type PolicyVersion } from '../storage/policies.ts'
import { trainingOf, type TrainingStep } from '../storage/training.ts'
import type { Objective } from './algorithm.ts'
import type { TrainerOptions } from './options.ts'
import { patient } from './patience.ts'
import { begin, enough, metricsOf, prune, publish, rolledBack } from './publishing.ts'
import type { Reporter } from './report.ts'
import type { Retokenize } from './retokenize.ts'
import { countByReason, oldestAllowed, supplyOf, takeGroups, takeOptionsOf, type Taken } from './take.ts'
import { learningRate } from './schedule.ts'
import { BOUNDS, checkBatch, checkFigures } from './self_check.ts'
import { prepareStep, updateLearner, type Updated } from './update.ts'
import { newestVersion, stateFolder, versionFolders } from './versions.ts'

export type Ending =
  | { readonly kind: 'finished' | 'interrupted'; readonly step: number }
  /** It has learned what it was asked to or learns no more; or something is wrong that it does not learn from. */
  | { readonly kind: 'early_stop' | 'paused'; readonly step: number; readonly why: string }

export interface Surroundings {
  readonly client: ClickHouseClient
  readonly openLearner: (options: LearnerOptions) => Promise<Learner>
  readonly objective: Objective
  /** Gives ids to turns that carry none; null: they are refused. */
  readonly retokenize: Retokenize | null
  /** Rejects, and says who does, where another process trains the policy; on this machine or another. */
  readonly claim: () => Promise<void>
  readonly report: Reporter
  readonly signal: AbortSignal
}

const FIRST_POLL_MS = 100
const LONGEST_POLL_MS = 500
/** Of the time, asking takes a quarter at most: where ClickHouse is slow to answer, it is asked less often. */
const REST = 3

export async function train(options: TrainerOptions, surroundings: Surroundings): Promise<Ending> {
  const { client, openLearner, objective, retokenize, claim, report, signal } = surroundings
  const policies = policiesOf(client)
  const training = trainingOf(client, options.policy)
  const folders = versionFolders(options.policies_dir, options.policy)
  const ask = patient(signal, report.note)
  const takeOptions = takeOptionsOf(options, { objective, retokenize })

  await ask(claim)
  let versions = await ask(() => begin(policies, options, folders.folder))
  let parent = newestVersion(versions)
  let step = Math.max(...versions.map(({ version }) => version))
  let learner = await openLearner(learnerOptions(options, objective, parent))
  report.note(
    `${options.policy}: goes on from version ${parent.version}, ${learner.trainable} of ${learner.parameters} parameters; ${learner.backend}`,
  )
  /** Groups without signal that were told of already. */
  let dropped = new Set<string>()
  /** What the parent's successor is trained on. */
  let since = { groups: 0, rollouts: 0, transitions: 0, tokens: 0 }

  try {
    while (options.steps === null || step < options.steps) {
      const evaluations = await ask(training.evaluations)
      const why = enough(evaluations, options)
      if (why !== null) return { kind: 'early_stop', step, why }
      await goBackIfTold()
      const ending = await next(step + 1)
      if (ending) return ending
      step++
    }
    return { kind: 'finished', step }
  } catch (error) {
    if (signal.aborted) return { kind: 'interrupted', step }
    throw error
  } finally {
    learner.close()
  }

  /** @returns why the run ends here, if it does */
  async function next(step: number): Promise<Ending | null> {
    const began = performance.now()
    const taken = await take(step)
    const waited = (performance.now() - began) / 1_000
    tellRefused(taken, report)
    const paused = (breaches: readonly string[]): Ending | null => {
      for (const breach of breaches) report.note(`step ${step}: ${breach}`)
      return breaches.length > 0 && options.on_breach === 'pause' ? { kind: 'paused', step: step - 1, why: breaches.join('; ') } : null
    }

    const isPublished = (version: number) => versions.some((known) => known.version === version)
    const { epochs, minibatches, tokens_per_pass } = options
    const prepared = await prepareStep(learner, objective, taken.samples, epochs * minibatches)
    const before = paused(checkBatch(prepared, objective, isPublished))
    if (before) return before
    await ask(claim)
    await ask(() => training.take(step, usesOf(taken, epochs)))
    const learning_rate = rateAt(step, options)
    const random = uniforms(options.seed + step * 2 ** 32)
    let updated = UNCHANGED
    try {
      if (prepared.turns.length > 0)
        updated = await updateLearner(learner, objective, prepared, { epochs, minibatches, tokens_per_pass, learning_rate, random })
    } catch (error) {
      // The same would come of it again.
      return { kind: 'paused', step: step - 1, why: `the update failed: ${(error as Error).message}` }
    }
    const after = paused(prepared.turns.length > 0 ? checkFigures(updated, updated.grad_norm, BOUNDS) : [])
    if (after) return after

    const told: TrainingStep = {
      ...{ step, algorithm: options.algorithm, learning_rate, dropped_groups: dropped.size, ...contentOf(taken, versions), ...updated },
      ...{ waited, seconds: (performance.now() - began) / 1_000 - waited },
    }
    dropped = new Set()
    since = added(since, told)
    const record = () => training.record(told)
    if (step % options.publish_every !== 0 && step !== options.steps) {
      await ask(record)
      report.step(told, null)
      return null
    }
    await ask(claim)
    const status = options.promote === 'auto' ? 'live' : 'candidate'
    await publish({ policies, folders, ask, record }, learner, {
      ...{ policy: options.policy, version: step, base: options.base, parent: parent.version, status },
      ...{ trained_on: since, metrics: metricsOf(told) },
    })
    since = NOTHING_YET
    versions = await ask(() => policies.versions(options.policy))
    parent = newestVersion(versions)
    report.step(told, parent)
    await ask(async () => prune(policies, folders, options, await training.evaluations()))
    return null
  }

  /** Those that this step took when its process died; else the next ones, once there are enough. */
  async function take(step: number): Promise<Taken> {
    const before = await ask(() => training.taken(step))
    if (before.length > 0) return ask(() => takeGroups(training, step, before, takeOptions))
    for (let pause = FIRST_POLL_MS; ; pause = Math.min(pause * 1.5, LONGEST_POLL_MS)) {
      const began = performance.now()
      const supply = await ask(() => supplyOf(training, objective, oldestAllowed(versions, options.max_staleness)))
      for (const group of supply.without_signal) dropped.add(group)
      const groups = supply.ready.slice(0, options.groups_per_step)
      if (groups.length === options.groups_per_step) {
        const taken = await ask(() =>
          takeGroups(
            training,
            step,
            groups.map(({ group_id }) => group_id),
            takeOptions,
          ),
        )
        const credited = new Map(groups.map(({ group_id, credit_version }) => [group_id, credit_version]))
        if (taken.turns.every(({ group_id, credit_version }) => credit_version === credited.get(group_id))) return taken
      }
      report.waiting({ step, ready: groups.length, wanted: options.groups_per_step, without_signal: dropped.size })
      await sleep(Math.max(pause, REST * (performance.now() - began)), undefined, { signal })
    }
  }

  /** Somebody has made an older version live: what came after it is given up. */
  async function goBackIfTold(): Promise<void> {
    versions = await ask(() => policies.versions(options.policy))
    const older = rolledBack(versions, parent)
    if (!older) return
    report.note(`${options.policy}: version ${parent.version} was rolled back; goes on from version ${older.version}`)
    learner.close()
    parent = older
    since = NOTHING_YET
    learner = await openLearner(learnerOptions(options, objective, parent))
  }
}

/** Of a step in which no turn was left to learn from. */
const UNCHANGED: Updated = {
  ...{ loss: 0, kl: 0, entropy: 0, clip_fraction: 0, weight_mean: 0, weight_ess: 0, weight_truncated: 0, grad_norm: 0, metrics: {} },
}

const NOTHING_YET = { groups: 0, rollouts: 0, transitions: 0, tokens: 0 }

function learnerOptions(options: TrainerOptions, { value_head }: Objective, { version, path }: PolicyVersion): LearnerOptions {
  const { base, backend, kernels, lora, optimizer, tokens_per_pass, seed } = options
  return {
    ...{ base, backend, kernels, value_head, optimizer, tokens_per_pass, seed },
    ...(lora ? { lora } : {}),
    ...(version > 0 ? { resume: stateFolder(path) } : {}),
  }
}

const rateAt = (step: number, options: TrainerOptions): number => learningRate(step, { ...options, total_steps: options.steps ?? Infinity })

/** Everything that was read is used up, what was refused too: it would be refused again. */
const usesOf = ({ turns }: Taken, epochs: number) =>
  Array.from({ length: epochs }, (_, i) => turns.map((turn) => ({ ...turn, epoch: i + 1 }))).flat()

function tellRefused({ refused }: Taken, report: Reporter): void {
  for (const [reason, count] of Object.entries(countByReason(refused))) {
    const { turn, detail } = refused.find((one) => one.reason === reason)!
    report.note(`${count} transitions refused (${reason}), such as step ${turn.step} of rollout ${turn.rollout_id}: ${detail}`)
  }
}

function contentOf({ groups, turns, samples, refused }: Taken, versions: readonly PolicyVersion[]) {
  const rollouts = [...new Map(turns.map((turn) => [`${turn.rollout_id}\u0000${turn.attempt_id}`, turn])).values()]
  const scored = rollouts.filter(({ outcome }) => outcome !== null)
  const behind = (version: number | null) => (version === null ? 0 : versions.filter((newer) => newer.version > version).length)
  return {
    groups: groups.length,
    rollouts: rollouts.length,
    transitions: samples.reduce((sum, sample) => sum + sample.turns.length, 0),
    rows: samples.length,
    tokens: samples.reduce((sum, { tokens }) => sum + tokens.length, 0),
    trained_tokens: samples.reduce((sum, { sampler }) => sum + sampler.length, 0),
    refused: countByReason(refused),
    staleness: mean(turns.map(({ policy_version }) => behind(policy_version))),
    reward: mean(scored.map(({ outcome }) => outcome!)),
    success: mean(scored.map(({ outcome, credit }) => (outcome! > middleOf(credit) ? 1 : 0))),
  }
}

const mean = (values: readonly number[]) => (values.length > 0 ? values.reduce((sum, value) => sum + value, 0) / values.length : 0)

function middleOf(credit: string): number {
  const { reward_range } = JSON.parse(credit) as CreditSpec
  return (reward_range[0] + reward_range[1]) / 2
}

const added = (since: typeof NOTHING_YET, { groups, rollouts, transitions, trained_tokens }: TrainingStep): typeof NOTHING_YET => ({
  groups: since.groups + groups,
  rollouts: since.rollouts + rollouts,
  transitions: since.transitions + transitions,
  tokens: since.tokens + trained_tokens,
})
