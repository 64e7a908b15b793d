// Trains a policy: by itself, on another machine if wished, or started by the extension `trainer`, whose options it reads either way.

import { mkdir, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'

import type { Plan, Unit } from '../pipeline/config.ts'
import { lockFolder } from '../pipeline/disk/folder_lock.ts'
import { openLearner } from '../policy/learner.ts'
import type { ConnectionOptions } from '../storage/connection.ts'
import { lease, trainerLease, type Lease } from '../storage/lease.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { trainingOf } from '../storage/training.ts'
import { objectiveOf } from '../trainer/algorithms/index.ts'
import { dryRun } from '../trainer/dry_run.ts'
import { train as trainPolicy, type Ending } from '../trainer/loop.ts'
import type { TrainerOptions } from '../trainer/options.ts'
import { rewardPlot } from '../trainer/plot.ts'
import { PAUSED, TRAINER_VARIABLE, type TrainerMessage } from '../trainer/process.ts'
import { textReporter, type Reporter } from '../trainer/report.ts'
import { retokenizer } from '../trainer/retokenize.ts'
import { versionFolders } from '../trainer/versions.ts'
import type { Io } from './command.ts'
import { command, configFlags, configFlagsHelp, loadPlan, UsageError } from './flags.ts'

const HELP = `Trains a policy on the rollouts in ClickHouse, as extensions::trainer of the configuration says; the extension itself need not run. It
goes on from the policy's newest version, and ends with code ${PAUSED} where the check of a step tells it to pause.

Usage:
  leyden train --config <source> [flags]

Flags:
  --policy <name>    which policy, where the configuration has several trainers
  --steps <n>        ends after this step
  --dry-run          shows the rows that the next step would take, with their advantages, and trains nothing
  --plot <file.svg>  draws the rewards so far, with evaluations, and trains nothing
${configFlagsHelp}
Example:
  leyden train --config config/pipeline.yaml --steps 100
`

/** The options of an algorithm stand below its name. */
type Configured = TrainerOptions & Readonly<Record<string, unknown>> & { readonly storage: string }

interface Job {
  readonly storage: Partial<ConnectionOptions>
  readonly trainer: Configured
}

export const train = command({
  help: HELP,
  flags: {
    ...configFlags,
    policy: { type: 'string' },
    steps: { type: 'string' },
    'dry-run': { type: 'boolean', default: false },
    plot: { type: 'string' },
  },
  async run(flags, io) {
    const given = io.env[TRAINER_VARIABLE]
    const job = given === undefined ? await configured(flags, io) : (JSON.parse(given) as Job)
    if (!job) return 1
    const trainer: Configured = {
      ...job.trainer,
      base: resolve(io.cwd, job.trainer.base),
      policies_dir: resolve(io.cwd, job.trainer.policies_dir),
      ...(flags.steps === undefined ? {} : { steps: wholeNumber(flags.steps) }),
    }
    const storage = await openStorage({ ...job.storage, report: (problem) => problem !== null && io.stderr(`${problem}\n`) })
    try {
      if (flags.plot !== undefined) return await plot(storage, trainer, resolve(io.cwd, flags.plot), io)
      const objective = objectiveOf(trainer.algorithm, trainer[trainer.algorithm] as Record<string, number | boolean | string>)
      const retokenize = trainer.allow_retokenized ? await retokenizer(trainer.base) : null
      if (flags['dry-run']) {
        io.stdout(await dryRun(trainer, { client: storage.client, objective, retokenize }))
        return 0
      }
      const unlock = await lock(trainer)
      const { hold, release } = policyLease(storage, trainer.policy)
      const stop = stopSignal()
      try {
        const ending = await trainPolicy(trainer, {
          ...{ client: storage.client, openLearner, objective, retokenize, claim: hold, signal: stop.signal },
          report: reporter(io),
        })
        io.stderr(`${endingText(trainer.policy, ending)}\n`)
        return ending.kind === 'paused' ? PAUSED : 0
      } finally {
        stop.forget()
        await release()
        await unlock()
      }
    } catch (error) {
      io.stderr(`Error: ${(error as Error).message}\n`)
      return 1
    } finally {
      await storage.close()
    }
  },
})

async function configured(flags: { config?: string[]; set?: string[]; policy?: string }, io: Io): Promise<Job | undefined> {
  const plan = await loadPlan(flags, io)
  if (!plan) return undefined
  const trainer = trainerOf(plan, flags.policy)
  const storage = plan.extensions.get(trainer.storage)
  if (!storage) throw new UsageError(`the configuration has no extension "${trainer.storage}", which the trainer names as its storage`)
  return { storage: storage.config as ConnectionOptions, trainer }
}

function trainerOf({ extensions }: Plan, policy: string | undefined): Configured {
  const trainers = [...extensions.values()].filter(({ component }: Unit) => component.type === 'trainer')
  const all = trainers.map(({ config }) => config as Configured)
  const known = all.map((trainer) => trainer.policy).join(', ')
  if (all.length === 0) throw new UsageError('the configuration has no extensions::trainer, which says what to train and how')
  const found = policy === undefined ? all : all.filter((trainer) => trainer.policy === policy)
  if (found.length === 1) return found[0]!
  throw new UsageError(
    policy === undefined
      ? `say which policy to train with --policy: ${known}`
      : `no trainer of policy "${policy}" is configured (known: ${known})`,
  )
}

function wholeNumber(text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value >= 0) return value
  throw new UsageError(`--steps must be a whole number, at least 0 (got "${text}")`)
}

/** Two trainers of one policy would overwrite each other's versions: in the same folder, whatever their databases are … */
async function lock({ policy, policies_dir }: TrainerOptions): Promise<() => Promise<void>> {
  const { folder } = versionFolders(policies_dir, policy)
  await mkdir(folder, { recursive: true })
  try {
    return await lockFolder(folder, 0)
  } catch (error) {
    throw new Error(`policy ${policy} is being trained by another process, which holds ${folder}`, { cause: error })
  }
}

/** … and in the same database, whatever their machines are. */
function policyLease({ client }: OpenStorage, policy: string): Lease {
  const what = `policy ${policy} is trained`
  return lease({ client, name: trainerLease(policy), what, run: (attempt) => attempt(), report: () => {} })
}

/** Fires when the process is told to end, or when the one that started it is gone. */
function stopSignal(): { readonly signal: AbortSignal; forget(): void } {
  const stop = new AbortController()
  const end = () => stop.abort()
  const events = ['SIGTERM', 'SIGINT', 'disconnect'] as const
  for (const event of events) process.on(event, end)
  return {
    signal: stop.signal,
    forget() {
      for (const event of events) process.off(event, end)
    },
  }
}

/** A line per step; and, where an extension started this process, its figures too. */
function reporter(io: Io): Reporter {
  const text = textReporter(io.stdout, io.terminal === true)
  const send = (message: TrainerMessage) => void process.send?.(message)
  let newest = 0
  return {
    note: text.note,
    waiting(state) {
      text.waiting(state)
      send({ kind: 'waiting', ready: state.ready })
    },
    step(step, version) {
      text.step(step, version)
      newest = version?.version ?? newest
      send({ kind: 'step', step, version: newest })
    },
  }
}

function endingText(policy: string, ending: Ending): string {
  if (ending.kind === 'paused') {
    return `${policy}: paused after step ${ending.step}: ${ending.why}. Mend the cause and start again, or set on_breach: continue`
  }
  if (ending.kind === 'early_stop') return `${policy}: done after step ${ending.step}: ${ending.why}`
  return `${policy}: ${ending.kind} after step ${ending.step}`
}

async function plot({ client }: OpenStorage, { policy }: TrainerOptions, file: string, io: Io): Promise<number> {
  const training = trainingOf(client, policy)
  const [steps, evaluations] = [await training.steps(), await training.evaluations()]
  if (steps.length === 0 && evaluations.length === 0) throw new Error(`nothing was trained of policy ${policy} yet`)
  await writeFile(file, rewardPlot(policy, steps, evaluations))
  io.stdout(`${file}: ${steps.length} steps, ${evaluations.length} evaluations\n`)
  return 0
}
