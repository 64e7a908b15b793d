// Which ClickHouse a command means: the one of --url, of a configuration, or the usual place.

import { existsSync } from 'node:fs'

import { embeddedFolder, urlProblem } from '../storage/connection.ts'
import { DEFAULTS, type StorageOptions } from '../storage/open.ts'
import type { Io } from './command.ts'
import { configFlags, configFlagsHelp, loadPlan, UsageError } from './flags.ts'

export const storageFlags = { ...configFlags, url: { type: 'string' } } as const

export const storageFlagsHelp = `${configFlagsHelp}  --url <url>        embedded:<folder> or http(s)://[user:password@]host:port, instead of what a configuration says
`

/** undefined when the configuration has mistakes; they are told already. */
export async function storageOptions(
  flags: { config?: string[]; set?: string[]; url?: string },
  io: Io,
): Promise<StorageOptions | undefined> {
  const options = flags.config ? await configured(flags, io) : { ...DEFAULTS, url: flags.url ?? io.env.CLICKHOUSE_URL ?? DEFAULTS.url }
  if (!options) return undefined
  const { url } = options
  for (const problem of urlProblem(url)) throw new UsageError(`--url ${problem}`)
  const folder = embeddedFolder(url, io.cwd)
  return folder === null ? options : { ...options, url: `embedded:${folder}` }
}

/** A question about a folder must not make one. */
export function requireData({ url }: StorageOptions): void {
  const folder = embeddedFolder(url)
  if (folder !== null && !existsSync(folder)) {
    throw new UsageError(`there is no data in ${folder} yet: start the pipeline there, or name another place with --config or --url`)
  }
}

async function configured(flags: { config?: string[]; set?: string[]; url?: string }, io: Io): Promise<StorageOptions | undefined> {
  const plan = await loadPlan(flags, io)
  if (!plan) return undefined
  const unit = [...plan.extensions.values()].find(({ component }) => component.type === 'clickhouse_storage')
  if (!unit && !flags.url) throw new UsageError('the configuration has no clickhouse_storage extension: name a ClickHouse with --url')
  return { ...DEFAULTS, ...(unit?.config as Partial<StorageOptions>), ...(flags.url ? { url: flags.url } : {}) }
}
