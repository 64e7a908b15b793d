// What a run was read as, and why each of its calls became a transition or did not.

import { existsSync } from 'node:fs'
import { resolve } from 'node:path'

import { assemble } from '../data/assemble.ts'
import { readDocument } from '../data/document.ts'
import { Malformed } from '../data/scan.ts'
import { hintOfItem, routeKey } from '../data/routing.ts'
import { dialects } from '../dialects/index.ts'
import { connect } from '../storage/connection.ts'
import { findRollouts, type FoundRollout } from '../storage/find_rollout.ts'
import type { Io } from './command.ts'
import { explainRange, rangeOf } from './explain_range.ts'
import { explanationJson, explanationText } from './explanation.ts'
import { command, loadPlan, UsageError } from './flags.ts'
import { readText } from './read_text.ts'
import { rolloutProcessor } from './rollout_processors.ts'
import { requireData, storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const HELP = `Says of every model call of a run what it was read as, and why it became a transition or did not.

Usage:
  leyden explain [flags] <file.json | trace id | rollout id[/attempt id]>
  leyden explain [flags] --since <time> [--until <time>]

A file holds OTLP/JSON, one document or one a line, and is read as one run; ids are looked up in the store. A range of time is answered with a line for each rollout
that ended in it: its calls, its transitions, why other calls are none, and its outcome.

Flags:
${storageFlagsHelp}  --since, --until   a date, a time, or how long ago, such as 7d or 12h
  --format <name>    text (default) or json
With a configuration, the processors of its first rollouts pipeline decide; else policy_calls, air and credit_assignment as they come. A range
is told as it is stored.

Examples:
  leyden explain trace.json --format json
  leyden explain try-17/2
  leyden explain 5b8efff798038103d269b633813fc60c --config pipeline.yaml
  leyden explain --since 1h --until 10m
`

export const explain = command({
  help: HELP,
  flags: { ...storageFlags, since: { type: 'string' }, until: { type: 'string' }, format: { type: 'string', default: 'text' } },
  words: true,
  async run(flags, io, words) {
    const [what] = words
    const ranged = flags.since !== undefined || flags.until !== undefined
    if (words.length !== (ranged ? 0 : 1)) {
      throw new UsageError('name one file, trace id or rollout id, or else a range: leyden explain trace.json, leyden explain --since 1h')
    }
    if (!['json', 'text'].includes(flags.format)) throw new UsageError(`--format must be text or json (got "${flags.format}")`)
    return what === undefined ? range(flags, io) : one(what, flags, io)
  },
})

type Flags = Parameters<typeof storageOptions>[0] & { since?: string; until?: string; format: string }

async function range(flags: Flags, io: Io): Promise<number> {
  const between = rangeOf(flags, Date.now())
  const options = await storageOptions(flags, io)
  if (!options) return 1
  requireData(options)
  io.stdout(await explainRange(options, between, flags.format))
  return 0
}

async function one(what: string, flags: Flags, io: Io): Promise<number> {
  const explain = flags.format === 'json' ? explanationJson : explanationText
  const plan = flags.config ? await loadPlan(flags, io) : undefined
  if (flags.config && !plan) return 1

  const run = isFile(what, io) ? await fromFile(what, io) : await fromStore(what, flags, io)
  if (!run) return 1
  const rollout = assemble(run.items, dialects, { key: run.key, closed_by: 'replay', revision: 0, covered_until: 0 })
  const processed = await rolloutProcessor(plan)(rollout)
  io.stdout(explain(run.items, processed ?? rollout))
  return 0
}

const isFile = (what: string, io: Io): boolean => what.endsWith('.json') || existsSync(resolve(io.cwd, what))

async function fromFile(path: string, io: Io): Promise<FoundRollout> {
  const { items, rejected } = parse(await readText(path, io.cwd), path)
  for (const reason of rejected) io.stderr(`warning: ${reason}\n`)
  if (items.length === 0) throw new UsageError(`${path} holds no spans and no log records`)
  const hints = new Set(items.map((item) => hintOfItem(item, 'trace')).filter(Boolean))
  if (hints.size > 1) io.stderr(`warning: ${path} holds spans of ${hints.size} rollouts; they are read as one\n`)
  return { key: [...hints][0] ?? routeKey(items[0]!.trace_id, ''), items }
}

function parse(text: string, path: string): ReturnType<typeof readDocument> {
  try {
    return readDocument(text)
  } catch (error) {
    if (error instanceof Malformed) throw new UsageError(`${path}: ${error.message}`)
    throw error
  }
}

async function fromStore(id: string, flags: Flags, io: Io): Promise<FoundRollout | undefined> {
  const options = await storageOptions(flags, io)
  if (!options) return undefined
  requireData(options)
  const { client, close } = await connect(options)
  try {
    const found = await findRollouts(client, id)
    if (found.length === 0) throw new UsageError(`nothing is stored of a rollout or trace "${id}"`)
    if (found.length > 1)
      throw new UsageError(`"${id}" has several attempts, name one: ${found.map(({ key }) => key.replace('\0', '/')).join(', ')}`)
    return found[0]
  } finally {
    await close()
  }
}
