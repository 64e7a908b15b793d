// npm run experiments -- <name|all>: agents of the paper's three kinds learn, with seeds, baselines and ablations. What is finished is not run
// again; results/<name>.json, .svg and .md hold what came out.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

import { ablations, experiments, TASKS_PER_STEP, TRAIN_TASKS, type Experiment } from './experiments.ts'
import { baseOf, halves, last, markdown, median, picture, type Series } from './report.ts'
import { runTrial, shortForm, type Point, type Result, type Trial } from './seed.ts'

const HELP = `Trains the agents of the experiments through the whole loop and reports what came out.

Usage:
  npm run experiments -- <name|all> [flags]

Names:
  ${experiments.map(({ name }) => name).join(', ')}

Flags:
  --seeds <n>       runs with seeds 1 to n (3)
  --ablate <what>   also runs the variants of: ${Object.keys(ablations).join(', ')}; may be given several times
  --short           twenty steps of one seed, no evaluation: fails where the reward does not rise
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
const unknown = values.ablate.filter((what) => !(what in ablations))
if (values.help || chosen.length === 0 || unknown.length > 0) {
  if (unknown.length > 0) console.error(`there is nothing called "${unknown[0]}" to ablate\n`)
  console.log(HELP)
  process.exit(values.help ? 0 : 1)
}

let failed = false
for (const experiment of chosen) failed = !(await (values.short ? short(experiment) : full(experiment))) || failed
process.exitCode = failed ? 1 : 0

/** @returns whether training reward rose as it should */
async function short(experiment: Experiment): Promise<boolean> {
  const folder = join(values.results, 'short', experiment.name)
  const trial = { experiment, ...shortForm(experiment.short_steps, TASKS_PER_STEP), changes: [], folder }
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
  }
  mkdirSync(values.results, { recursive: true })
  const table = markdown(experiment, series)
  const write = (ending: string, content: string) => writeFileSync(join(values.results, `${experiment.name}.${ending}`), content)
  write('json', `${JSON.stringify(series, null, 1)}\n`)
  write('svg', picture(experiment, series))
  write('md', table)
  console.log(`\n${table}`)
  const results = series[0]?.results ?? []
  return median(results.map(last)) >= experiment.goal.trained && median(results.map(baseOf)) <= experiment.goal.base
}

/** A run that fails stands in the table as well, and the others go on. */
async function tried(trial: Trial, told: Parameters<typeof runTrial>[1]): Promise<Result> {
  try {
    return await runTrial(trial, told)
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error)
    console.error(`\n${trial.experiment.name}, seed ${trial.seed} did not come to its end: ${failure}`)
    return { seed: trial.seed, train: [], steps: [], evaluations: [], tokens: 0, endings: {}, seconds: 0, failure }
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
