// A user's own cases: what comes in, which processors it passes, and which transitions are to come out.

import { existsSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'

import { assemble } from '../data/assemble.ts'
import { readDocument } from '../data/document.ts'
import type { Rollout, Transition } from '../data/rollout.ts'
import { parseJson } from '../data/parse_json.ts'
import { itemsByRollout, type GroupBy } from '../data/routing.ts'
import { dialects } from '../dialects/index.ts'
import { loadConfig, type Plan } from '../pipeline/config.ts'
import { formatProblems } from '../pipeline/problems.ts'
import type { Io } from './command.ts'
import { differences, shown } from './difference.ts'
import { command, UsageError } from './flags.ts'
import { inWords, readText } from './read_text.ts'
import { registry } from './registry.ts'
import { rolloutProcessor } from './rollout_processors.ts'

const HELP = `Runs cases: folders that hold spans, a pipeline, and the transitions that should come of them.

Usage:
  leyden test [--update] <folder>…

A folder is one case, or holds one in each of its folders:
  spans.json         OTLP/JSON, spans and log records, of any number of rollouts
  pipeline.yaml      a whole configuration, or only its processors and its pipeline of rollouts; without it: policy_calls, air, credit_assignment
  transitions.json   a list: what each transition must hold, in the order of rollouts and steps; what is not listed may be anything
Advantages are made later, from a whole group; a case does not see them.

Flags:
  --update           writes transitions.json as it is now, where there is none

Example:
  leyden test test/cases
`

const SPANS = 'spans.json'
const PIPELINE = 'pipeline.yaml'
const TRANSITIONS = 'transitions.json'

/** What a file that has only the part of rollouts leaves out. Nothing of it is started. */
const AROUND = `yaml:
receivers: {otlp: {}}
connectors: {rollouts: {}}
processors: {policy_calls: {}, air: {}, credit_assignment: {}}
exporters: {debug: {}}
extensions: {clickhouse_storage: {}}
service:
  extensions: [clickhouse_storage]
  pipelines:
    traces: {receivers: [otlp], exporters: [rollouts]}
    rollouts: {receivers: [rollouts], processors: [policy_calls, air, credit_assignment], exporters: [debug]}
`

export const test = command({
  help: HELP,
  flags: { update: { type: 'boolean', default: false } },
  words: true,
  async run({ update }, io, words) {
    if (words.length === 0) throw new UsageError('name a folder of cases: leyden test test/cases')
    const folders = (await Promise.all(words.map((word) => casesIn(resolve(io.cwd, word), word)))).flat()
    let failed = 0
    for (const folder of folders) {
      const complaints = await runCase(folder, update, io).catch((error: Error) => [error.message])
      const name = relative(io.cwd, folder) || '.'
      if (complaints.length > 0) failed++
      io.stdout(complaints.length === 0 ? `ok    ${name}\n` : `FAIL  ${name}\n${complaints.map((line) => `      ${line}\n`).join('')}`)
    }
    io.stdout(`${folders.length - failed} passed, ${failed} failed\n`)
    return failed === 0 ? 0 : 1
  },
})

async function casesIn(folder: string, written: string): Promise<string[]> {
  if (existsSync(join(folder, SPANS))) return [folder]
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: Error) => {
    throw new UsageError(`${written}: ${inWords(error)}`)
  })
  const cases = entries.filter((entry) => entry.isDirectory() && existsSync(join(folder, entry.name, SPANS)))
  if (cases.length === 0) throw new UsageError(`${written} holds no ${SPANS}, and no folder in it does`)
  return cases.map(({ name }) => join(folder, name)).sort()
}

/** What is wrong, in lines; nothing where all is as expected. */
async function runCase(folder: string, update: boolean, io: Io): Promise<string[]> {
  const { plan, problems } = await planOf(folder, io)
  if (problems.length > 0) return problems
  const { rollouts, rejected } = await rolloutsOf(folder, plan)
  const transitions = rollouts.flatMap((rollout) => rollout.transitions.map((transition) => asExpected(rollout, transition)))
  const path = join(folder, TRANSITIONS)
  if (!existsSync(path)) {
    if (!update) return [`${TRANSITIONS} is missing; --update writes what comes out now`]
    await writeFile(path, `${JSON.stringify(transitions, null, 2)}\n`)
    return []
  }
  const expected = await read(folder, TRANSITIONS, parseJson)
  if (!Array.isArray(expected)) return [`${TRANSITIONS}: must be a list, with an object for each transition`]
  const wrong = differences(expected, transitions, 'transitions')
  if (wrong.length === 0) return []
  const lines = wrong.map(({ path, before, after }) => `${path}: expected ${shown(before)}, got ${shown(after)}`)
  const reasons = rollouts.flatMap(({ rejects }) =>
    rejects.map(({ span_id, reason, detail }) => `call ${span_id} was rejected: ${reason}: ${detail}`),
  )
  return [...lines, ...reasons, ...rejected]
}

async function planOf(folder: string, io: Io): Promise<{ plan?: Plan | undefined; problems: string[] }> {
  if (!existsSync(join(folder, PIPELINE))) return { problems: [] }
  const { plan, problems } = await loadConfig([AROUND, PIPELINE], { registry, env: io.env, cwd: folder })
  return { plan, problems: formatProblems(problems) }
}

async function rolloutsOf(folder: string, plan: Plan | undefined): Promise<{ rollouts: Rollout[]; rejected: readonly string[] }> {
  const { items, rejected } = await read(folder, SPANS, readDocument)
  const connector = [...(plan?.connectors.values() ?? [])].find(({ component }) => component.type === 'rollouts')
  const { group_by = 'trace' } = (connector?.config ?? {}) as { group_by?: GroupBy }
  const process = rolloutProcessor(plan)
  const rollouts: Rollout[] = []
  for (const [key, own] of itemsByRollout(items, group_by)) {
    const rollout = await process(assemble(own, dialects, { key, closed_by: 'replay', revision: 0, covered_until: 0 }))
    if (rollout) rollouts.push(rollout)
  }
  return { rollouts, rejected }
}

async function read<T>(folder: string, file: string, parse: (text: string) => T): Promise<T> {
  const text = await readText(file, folder)
  try {
    return parse(text)
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}`, { cause: error })
  }
}

/** A transition as a case may expect it: with what makes it training data. */
function asExpected({ rollout_id, attempt_id }: Rollout, { call, ...transition }: Transition): object {
  const { prompt, completion, finish, tokens } = call
  return JSON.parse(JSON.stringify({ rollout_id, attempt_id, ...transition, prompt, completion, finish, tokens })) as object
}
