// The versions of policies: shown, made live, given up for the one before, removed.

import { dirname } from 'node:path'

import { openStorage } from '../storage/open.ts'
import { policiesOf, type Policies, type Policy, type PolicyVersion } from '../storage/policies.ts'
import { trainingOf, type Evaluation } from '../storage/training.ts'
import { prune as pruneVersions } from '../trainer/publishing.ts'
import { versionFolders } from '../trainer/versions.ts'
import { command, UsageError } from './flags.ts'
import { requireData, storageFlags, storageFlagsHelp, storageOptions } from './storage_flags.ts'

const HELP = `Shows and changes which version of a policy is live. An endpoint answers with it within a second; a trainer goes on from it.

Usage:
  leyden policies list [policy]
  leyden policies promote <policy>[@version]    makes a version live: the newest candidate, or the one that is named
  leyden policies rollback <policy>[@version]   makes the one before the live one live again, or the one that is named
  leyden policies prune <policy> [--keep 3]     removes the files of old versions: not the newest, the live or the best one

Flags:
  --keep <n>         prune: how many of the newest versions stay (3)
${storageFlagsHelp}
Example:
  leyden policies promote default@7
`

const ACTIONS = { list, promote, rollback, prune } as const

interface Question {
  readonly policies: Policies
  readonly policy: string
  readonly version: number | undefined
  readonly keep: number
  /** What evaluations say of the versions of a policy. */
  evaluations(policy: string): Promise<Evaluation[]>
}

export const policies = command({
  help: HELP,
  flags: { ...storageFlags, keep: { type: 'string', default: '3' } },
  words: true,
  async run(flags, io, [action = '', name = '', ...more]) {
    if (!Object.hasOwn(ACTIONS, action) || more.length > 0) {
      throw new UsageError(`say what to do: leyden policies ${Object.keys(ACTIONS).join('|')}`)
    }
    if (name === '' && action !== 'list') throw new UsageError(`name the policy: leyden policies ${action} <policy>`)
    const keep = Number(flags.keep)
    if (!Number.isSafeInteger(keep) || keep < 1) throw new UsageError(`--keep must be a whole number, at least 1 (got "${flags.keep}")`)
    const [, policy = name, version] = /^(.*)@(\d+)$/.exec(name) ?? []
    const options = await storageOptions(flags, io)
    if (!options) return 1
    requireData(options)
    const storage = await openStorage(options)
    try {
      const asked = { policies: policiesOf(storage.client), policy, version: version === undefined ? undefined : Number(version), keep }
      const evaluations = (policy: string) => trainingOf(storage.client, policy).evaluations()
      io.stdout(`${await ACTIONS[action as keyof typeof ACTIONS]({ ...asked, evaluations })}\n`)
      return 0
    } catch (error) {
      io.stderr(`Error: ${(error as Error).message}\n`)
      return 1
    } finally {
      await storage.close()
    }
  },
})

async function list({ policies, policy, evaluations }: Question): Promise<string> {
  const known = policy === '' ? await policies.list() : [await knownPolicy(policies, policy)]
  const rows = known.map(async (one) => {
    const scores = new Map((await evaluations(one.policy)).map(({ version, reward }) => [version, reward]))
    return (await policies.versions(one.policy)).map((version) => rowOf(version, scores.get(version.version)))
  })
  const table = (await Promise.all(rows)).flat()
  return table.length > 0
    ? aligned([['policy', 'version', 'status', 'parent', 'reward', 'evaluation', 'made', 'files'], ...table])
    : 'no policies yet'
}

function rowOf({ policy, version, status, parent, metrics, created_at, path }: PolicyVersion, evaluation: number | undefined): string[] {
  const shown = (value: number | undefined) => value?.toFixed(3) ?? '-'
  const made = new Date(created_at).toISOString().slice(0, 19)
  return [policy, String(version), status, String(parent ?? '-'), shown(metrics.reward), shown(evaluation), made, path || 'pruned']
}

const aligned = (rows: readonly string[][]): string =>
  rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(Math.max(...rows.map((other) => other[i]!.length))))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')

async function promote({ policies, policy, version }: Question): Promise<string> {
  await knownPolicy(policies, policy)
  const chosen = version ?? (await policies.versions(policy)).findLast(({ status }) => status === 'candidate')?.version
  if (chosen === undefined) throw new Error(`policy ${policy} has no candidate: name a version, ${policy}@<version>`)
  await policies.setStatus(policy, chosen, 'live')
  return `${policy}@${chosen} is live`
}

async function rollback({ policies, policy, version }: Question): Promise<string> {
  await knownPolicy(policies, policy)
  const live = await policies.live(policy)
  if (!live) throw new Error(`policy ${policy} has no live version`)
  if (version !== undefined && version >= live.version)
    throw new Error(`${policy}@${version} is not older than the live one, ${live.version}`)
  const before = (await policies.versions(policy)).findLast(
    (one) => one.version < live.version && one.path !== '' && one.status === 'retired',
  )
  const chosen = version ?? before?.version
  if (chosen === undefined) throw new Error(`policy ${policy} has no version before ${live.version} whose files are there`)
  await policies.setStatus(policy, chosen, 'live')
  return `${policy}@${chosen} is live, ${policy}@${live.version} no longer`
}

async function prune({ policies, policy, keep, evaluations }: Question): Promise<string> {
  const { path } = await knownPolicy(policies, policy)
  const there = async () => (await policies.versions(policy)).filter((version) => version.path !== '').length
  const before = await there()
  await pruneVersions(policies, versionFolders(dirname(path), policy), { policy, keep, eval_every: Infinity }, await evaluations(policy))
  return `removed ${before - (await there())} of ${before} versions`
}

async function knownPolicy(policies: Policies, policy: string): Promise<Policy> {
  const all = await policies.list()
  const found = all.find((one) => one.policy === policy)
  if (found) return found
  throw new Error(`there is no policy "${policy}" (known: ${all.map((one) => one.policy).join(', ') || 'none'})`)
}
