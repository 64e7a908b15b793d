// Policies and their versions, as trainer, endpoint and command line share them. A version is an appended row; at most one of a
// policy is live, and that is the one that was made so last.

import type { ClickHouseClient } from '@clickhouse/client'

import { SMALL_STATEMENT } from './literals.ts'

export type VersionStatus = 'candidate' | 'live' | 'retired'

export interface Policy {
  readonly policy: string
  /** Folder of the model that training began with. */
  readonly base: string
  /** Folder of its versions. */
  readonly path: string
  /** Milliseconds since the epoch. */
  readonly created_at: number
}

export interface PolicyVersion {
  readonly policy: string
  /** How many updates made it; 0 is the base. */
  readonly version: number
  readonly base: string
  /** Folder of its files; '' once they are pruned. */
  readonly path: string
  /** The version that it was trained from. */
  readonly parent: number | null
  readonly status: VersionStatus
  /** Groups, rollouts, transitions and tokens since its parent. */
  readonly trained_on: Readonly<Record<string, number>>
  readonly metrics: Readonly<Record<string, number>>
  /** Milliseconds since the epoch. */
  readonly created_at: number
}

export interface Policies {
  list(): Promise<Policy[]>
  /** Makes the policy known, or says anew where it is. */
  register(policy: Omit<Policy, 'created_at'>): Promise<void>
  /** Oldest first. */
  versions(policy: string): Promise<PolicyVersion[]>
  live(policy: string): Promise<PolicyVersion | undefined>
  /** The files must be in their place already. A version published as live retires the one that was. */
  publish(version: Omit<PolicyVersion, 'created_at'>): Promise<void>
  /** `live` promotes, and retires the one that was. Rejects where there is no such version, or its files are pruned and it is to be live. */
  setStatus(policy: string, version: number, status: VersionStatus): Promise<void>
  /** Says that the files of a version are gone. Rejects for the live one. */
  pruned(policy: string, version: number): Promise<void>
}

interface VersionRow extends PolicyVersion {
  readonly updated_at: number
}

export function policiesOf(client: ClickHouseClient): Policies {
  async function rows(policy: string): Promise<VersionRow[]> {
    const found = await select<VersionRow>(
      `SELECT policy, version, base, path, parent, status, trained_on, metrics,
         toUnixTimestamp64Milli(created_at) AS created_at, toUnixTimestamp64Milli(updated_at) AS updated_at
       FROM policy_versions FINAL WHERE policy = {policy:String} ORDER BY version`,
      { policy },
    )
    // Two processes may have made a version live at the same moment.
    const newest = Math.max(...found.filter(({ status }) => status === 'live').map(({ updated_at }) => updated_at))
    const live = found.findLast(({ status, updated_at }) => status === 'live' && updated_at === newest)
    return found.map((row) => (row.status === 'live' && row !== live ? { ...row, status: 'retired' } : row))
  }

  async function versions(policy: string): Promise<PolicyVersion[]> {
    return (await rows(policy)).map(({ updated_at: _, ...version }) => version)
  }

  async function live(policy: string): Promise<PolicyVersion | undefined> {
    return (await versions(policy)).find(({ status }) => status === 'live')
  }

  async function publish(version: Omit<PolicyVersion, 'created_at'>): Promise<void> {
    await write({ ...version, created_at: Date.now() }, await rows(version.policy))
  }

  async function setStatus(policy: string, version: number, status: VersionStatus): Promise<void> {
    const known = await rows(policy)
    const row = require(known, policy, version)
    if (status === 'live' && row.path === '') throw new Error(`version ${version} of policy ${policy} is pruned: its files are gone`)
    await write({ ...row, status }, known)
  }

  async function pruned(policy: string, version: number): Promise<void> {
    const known = await rows(policy)
    const row = require(known, policy, version)
    if (row.status === 'live') throw new Error(`version ${version} of policy ${policy} is live: it cannot be pruned`)
    await write({ ...row, path: '' }, known)
  }

  /** One block, so that no reader sees two live versions or none. Clocks of several machines differ: what is newer must look so. */
  async function write(version: PolicyVersion, known: readonly VersionRow[]): Promise<void> {
    const now = Math.max(Date.now(), ...known.map(({ updated_at }) => updated_at + 1))
    const replaced = version.status === 'live' ? known.filter((v) => v.status === 'live' && v.version !== version.version) : []
    const changed: PolicyVersion[] = [...replaced.map((v): PolicyVersion => ({ ...v, status: 'retired' })), version]
    await insert(
      'policy_versions',
      changed.map((v) => ({ ...v, metrics: finite(v.metrics), created_at: seconds(v.created_at), updated_at: seconds(now) })),
    )
  }

  async function register({ policy, base, path }: Omit<Policy, 'created_at'>): Promise<void> {
    const known = (await list()).find((other) => other.policy === policy)
    if (known?.base === base && known.path === path) return
    const now = Date.now()
    await insert('policies', [{ policy, base, path, created_at: seconds(known?.created_at ?? now), updated_at: seconds(now) }])
  }

  const list = () =>
    select<Policy>(
      'SELECT policy, base, path, toUnixTimestamp64Milli(created_at) AS created_at FROM policies FINAL ORDER BY policies.created_at, policy',
    )

  async function select<T>(query: string, query_params: Record<string, unknown> = {}): Promise<T[]> {
    const clickhouse_settings = { ...SMALL_STATEMENT, output_format_json_quote_64bit_integers: 0 } as const
    return (await client.query({ query, query_params, format: 'JSONEachRow', clickhouse_settings })).json<T>()
  }

  async function insert(table: string, values: readonly object[]): Promise<void> {
    await client.insert({ table, values, format: 'JSONEachRow', clickhouse_settings: { async_insert: 0 } })
  }

  return { list, register, versions, live, publish, setStatus, pruned }
}

function require(known: readonly VersionRow[], policy: string, version: number): VersionRow {
  const row = known.find((other) => other.version === version)
  if (row) return row
  const there = known.length > 0 ? `it has ${known.map((other) => other.version).join(', ')}` : 'it has none'
  throw new Error(`policy ${policy} has no version ${version}: ${there}`)
}

const finite = (metrics: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(metrics).filter(([, value]) => Number.isFinite(value)))

const seconds = (ms: number): string => (ms / 1_000).toFixed(3)
