// An embedded ClickHouse in a new folder for one measurement, which whatever is measured writes to.

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { connect } from '../storage/connection.ts'
import { readAddress } from '../storage/embedded/address.ts'
import { exited } from './processes.ts'

export interface ClickHouse {
  /** Beside the store there is room for a configuration. */
  readonly folder: string
  readonly store: string
  readonly port: number
  readonly password: string
  readonly pid: number
  /** The numbers of a query's only row. */
  numbers(sql: string): Promise<number[]>
  /** Ends it and removes the folder. */
  stop(): Promise<void>
}

export async function startClickHouse(): Promise<ClickHouse> {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-bench-'))
  const store = join(folder, 'store')
  const { client, close } = await connect({ url: `embedded:${store}`, database: 'default', username: 'default', password: '' })
  const address = (await readAddress(store))!
  return {
    ...{ folder, store, ...address },
    async numbers(query) {
      const [row] = await (await client.query({ query, format: 'JSONCompactEachRow' })).json<(number | string)[]>()
      return row!.map(Number)
    },
    async stop() {
      await close()
      process.kill(address.pid)
      await exited(address.pid)
      await rm(folder, { recursive: true, maxRetries: 5, retryDelay: 200 })
    },
  }
}
