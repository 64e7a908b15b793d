// npm run experiments -- <name|all>: agents of the paper's three kinds learn, with seeds, baselines and ablations. What is finished is not run
// again; results/<name>.json, .svg and .md hold what came out.

import { mkdirSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

import { ablations, experiments, races, TASKS_PER_STEP, TRAIN_TASKS, type Experiment, type Race } from './experiments.ts'
import { racePicture, raceTable, shareOf, updatesUntilSuccess } from './race.ts'
import { baseOf, halves, last, markdown, median, picture, type Series } from './report.ts'
import { runTrial, shortForm, type Mean, type Point, type Result, type Trial, type Watching } from './seed.ts'

const HELP = `Trains the agents of the experiments through the whole loop and reports what came out.

Usage:
  npm run experiments -- <name|all> [flags]

Names:
  ${[...experiments, ...races].map(({ name }) => name).join(', ')}

Flags:
  --seeds <n>       runs with seeds 1 to n (3)
  --ablate <what>   also runs the variants of: ${Object.keys(ablations).join(', ')}; may be given several times
  --short           twenty steps or so of one seed, no evaluation: fails where the reward does not rise
  --results <dir>   folder of the results (results)

Example:
  npm run experiments -- math_tool --seeds 5 --ablate credit
`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seeds: { type: 'string', default: '3' },
    ablate: { type: 'string', multiple: true, default: [] },
    short: { type: 'boolean', default: false },
    results: { type: 'string', default: 'results' },
    help: { type: 'boolean', default: false },
  },
})
const [name] = positionals
const chosen = experiments.filter((experiment) => name === 'all' || experiment.name === name)
const raced = races.filter((race) => (name === 'all' && !values.short) || race.name === name)
const unknown = values.ablate.filter((what) => !(what in ablations))
if (values.help || chosen.length + raced.length === 0 || unknown.length > 0) {
  if (unknown.length > 0) console.error(`there is nothing called "${unknown[0]}" to ablate\n`)
  console.log(HELP)
  process.exit(values.help ? 0 : 1)
}

/** Of the experiments: eight rollouts of a task, and the next ones begin while an update is made. */
const SAMPLING = { group_size: 8, ahead: 1 } as const

const ended = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => ended.abort(signal))

let failed = false
try {
  for (const experiment of chosen) failed = !(await (values.short ? short(experiment) : full(experiment))) || failed
  for (const race of raced) failed = !(await run(race)) || failed
  process.exitCode = failed ? 1 : 0
} catch (error) {
  if (!ended.signal.aborted) throw error
  const signal = ended.signal.reason as 'SIGINT' | 'SIGTERM'
  console.log(`\nended by ${signal}; the same command goes on from here`)
  process.exitCode = 128 + constants.signals[signal]
}

/** @returns whether training reward rose as it should */
async function short(experiment: Experiment): Promise<boolean> {
  const folder = join(values.results, 'short', experiment.name)
  const trial = { ...SAMPLING, experiment, ...shortForm(experiment.short_steps, TASKS_PER_STEP), changes: [], folder }
  const { steps, seconds } = await tried(trial, progress(`${experiment.name}, short`))
  const [before, after] = halves(steps)
  const rose = after - before >= experiment.short_rise
  const verdict = rose ? 'rose' : `did not rise by ${experiment.short_rise}`
  console.log(`\n${experiment.name}: training reward ${verdict}: ${before.toFixed(2)} to ${after.toFixed(2)}, ${seconds.toFixed(0)} s`)
  return rose
}

/** @returns whether the goal was reached */
async function full(experiment: Experiment): Promise<boolean> {
  const variants: [string, readonly string[]][] = [['', []]]
  for (const what of values.ablate) {
    for (const [value, changes] of Object.entries(ablations[what] ?? {}).slice(1)) variants.push([`${what} ${value}`, changes])
  }
  const series: Series[] = []
  for (const [variant, changes] of variants) {
    const results: Result[] = []
    for (let seed = 1; seed <= Number(values.seeds); seed++) {
      const folder = join(values.results, experiment.name, variant.replace(' ', '_') || 'as_is', `seed_${seed}`)
      const trial = {
        experiment,
        ...SAMPLING,
        steps: experiment.steps,
        tasks_per_step: TASKS_PER_STEP,
        tasks: TRAIN_TASKS,
        evaluate: true,
        seed,
        changes,
        folder,
      }
      results.push(await tried(trial, progress([experiment.name, variant, `seed ${seed}`].filter(Boolean).join(', '))))
    }
    series.push({ variant, results })
    report(experiment.name, series, markdown(experiment, series), picture(experiment, series))
  }
  const results = series[0]?.results ?? []
  return median(results.map(last)) >= experiment.goal.trained && median(results.map(baseOf)) <= experiment.goal.base
}

/** @returns whether the goal was reached */
async function run(race: Race): Promise<boolean> {
  const arms: [string, readonly string[]][] = Object.entries(race.arms)
  for (const what of values.ablate) {
    for (const [value, changes] of Object.entries(ablations[what] ?? {}).slice(1)) arms.push([`${what} ${value}`, changes])
  }
  const { groups: tasks_per_step, group_size, most_updates: steps } = race
  // The newest step may not be whole yet.
  const enough = (means: readonly Mean[]) => Number.isFinite(updatesUntilSuccess(means.slice(0, -1)))
  const lanes = arms.map(([variant]) => ({ variant, results: [] as Result[] }))
  // Each seed in every arm before the next: a race that is stopped can be compared as far as it went.
  for (let seed = 1; seed <= Number(values.seeds); seed++) {
    for (const [i, [arm, changes]] of arms.entries()) {
      const folder = join(values.results, race.name, arm.replace(' ', '_'), `seed_${seed}`)
      // Each update learns from what the version before it did.
      const sampling = { steps, group_size, tasks_per_step, tasks: TRAIN_TASKS, ahead: 0 } as const
      const trial = { ...sampling, experiment: race, evaluate: false, seed, changes, folder, enough }
      lanes[i]!.results.push(await tried(trial, progress(`${race.name}, ${arm}, seed ${seed}`)))
    }
    report(race.name, lanes, raceTable(race, lanes), racePicture(race, lanes))
  }
  const [first, other] = [lanes[0], lanes.find(({ variant }) => variant === race.goal.arm)]
  return first !== undefined && other !== undefined && shareOf(other, first, race) <= race.goal.share
}

function report(name: string, series: readonly Series[], table: string, drawn: string): void {
  mkdirSync(values.results, { recursive: true })
  const write = (ending: string, content: string) => writeFileSync(join(values.results, `${name}.${ending}`), content)
  write('json', `${JSON.stringify(series, null, 1)}\n`)
  write('svg', drawn)
  write('md', table)
  console.log(`\n${table}`)
}

/** A run that fails stands in the table as well, and the others go on. */
async function tried(trial: Trial, told: Watching['told']): Promise<Result> {
  try {
    return await runTrial(trial, { told, signal: ended.signal })
  } catch (error) {
    if (ended.signal.aborted) throw error
    const failure = error instanceof Error ? error.message : String(error)
    console.error(`\n${trial.experiment.name}, seed ${trial.seed} did not come to its end: ${failure}`)
    return { seed: trial.seed, train: [], steps: [], evaluations: [], tokens: 0, updating: 0, endings: {}, seconds: 0, failure }
  }
}

/** One line a version; on a terminal the newest is drawn over as it grows. */
function progress(what: string): (train: readonly Point[], evaluations: readonly Point[]) => void {
  let drawn = 0
  let evaluated = 0
  const lineOf = ({ version, reward, rollouts }: Point, kind: string) =>
    `${what}, version ${String(version).padStart(3)}: ${kind} ${reward.toFixed(3)}, ${rollouts} rollouts`
  return (train, evaluations) => {
    if (process.stdout.isTTY) process.stdout.write('\r\u001b[K')
    for (; evaluated < evaluations.length - 1; evaluated++) console.log(lineOf(evaluations[evaluated]!, 'held-out'))
    for (; drawn < train.length - 1; drawn++) console.log(lineOf(train[drawn]!, 'reward'))
    const newest = train.at(-1)
    if (process.stdout.isTTY && newest) process.stdout.write(lineOf(newest, 'reward'))
  }
}
