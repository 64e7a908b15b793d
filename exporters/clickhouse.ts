// Rollouts into Leyden's own tables; spans and log records into the tables that the OpenTelemetry
// Collector's exporter of this name writes.

import type { Rollout } from '../data/rollout.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { exporter, Permanent, permanently } from '../pipeline/component.ts'
import { duration, flag, secret, text } from '../pipeline/schema.ts'
import { checkSending, sending } from '../pipeline/sending.ts'
import { UNIT } from '../pipeline/size.ts'
import { connect, urlProblem, type Connection } from '../storage/connection.ts'
import { openStorage, type OpenStorage } from '../storage/open.ts'
import { insertOtel } from '../storage/otel_insert.ts'
import { otelRows } from '../storage/otel_rows.ts'
import { logsTables, tracesTables } from '../storage/otel_tables.ts'
import { Unassemblable } from '../storage/revisions.ts'
import type { Storage } from '../storage/storage.ts'

export default exporter({
  type: 'clickhouse',
  summary: "Writes rollouts as transitions, and spans and log records in the Collector's otel_traces and otel_logs tables, to ClickHouse.",
  signals: ['traces', 'logs', 'rollouts'],
  config: {
    storage: text('The clickhouse_storage extension whose ClickHouse is written to, unless `url` names another.', {
      default: 'clickhouse_storage',
    }),
    url: text(
      '`embedded`, `embedded:<folder>` or `http(s)://host:port`, in which user, password, database and settings of ClickHouse may stand as well; when absent, the ClickHouse of `storage`.',
      {
        default: null,
        aliases: ['endpoint'],
      },
    ),
    database: text('Database of the tables at `url`.', { default: 'default' }),
    username: text('User at `url`.', { default: 'default' }),
    password: secret('Password of the user.', { default: '' }),
    create_schema: flag('Whether the otel tables are made where they do not exist.', { default: true }),
    traces_table_name: text('Table of spans.', { default: 'otel_traces' }),
    logs_table_name: text('Table of log records.', { default: 'otel_logs' }),
    ttl: duration('How long the otel tables keep a row; 0s: for ever. Heeded when they are made.', { default: '0s' }),
    ...sending,
  },
  check(config) {
    const wrongUrl = urlProblem(config.url ?? 'embedded').map((message) => ({ path: ['url'], message }))
    const idle =
      config.url === null && config.database !== 'default'
        ? [{ path: ['database'], message: 'needs "url": without it, the database is that of `storage`' }]
        : []
    return [...wrongUrl, ...idle, ...checkSending(config)]
  },

  create(options, context) {
    const { url, database, username, password } = options
    const shared = () => context.extension<Storage>(options.storage)
    // Opened when first needed, so that a ClickHouse that is away at the start is only waited for.
    const ownStorage = opened(() => openStorage({ url: url!, database, username, password, report: context.health, count: context.count }))
    const ownConnection = opened(async () => {
      const connection = await connect({ url: url!, database, username, password })
      if (options.create_schema) await connection.makeDatabase()
      return connection
    })
    const tables = {
      traces: opened(() => makeTables(tracesTables(options))),
      logs: opened(() => makeTables(logsTables(options))),
    }

    const client = async () => (url === null ? shared().client : (await ownConnection.get()).client)

    async function makeTables(statements: readonly string[]): Promise<void> {
      if (!options.create_schema) return
      for (const query of statements) await (await client()).command({ query })
    }

    async function writeRollouts(rollouts: readonly Rollout[], abort: AbortSignal): Promise<void> {
      const storage = url === null ? shared() : await ownStorage.get()
      try {
        await storage.writeRevision(rollouts, abort)
        // Elsewhere nobody else commits: the rollouts connector commits to its own storage.
        if (url !== null) await storage.commit(rollouts)
      } catch (error) {
        throw error instanceof Unassemblable ? new Permanent(error.message, { cause: error }) : error
      }
    }

    async function writeOtel(batches: readonly SpanBatch[], signal: 'traces' | 'logs', abort: AbortSignal): Promise<void> {
      await tables[signal].get()
      const rows = permanently(() => otelRows(signal, batches))
      if (rows.ends.length === 0) return
      const table = signal === 'traces' ? options.traces_table_name : options.logs_table_name
      const reasons = await insertOtel(await client(), table, rows, abort)
      if (reasons.length === 0) return
      context.log.error('ClickHouse refuses some for good: they are left out', { table, [UNIT[signal]]: reasons.length, error: reasons[0] })
      context.count(`leyden_exporter_rejected_${UNIT[signal]}`, reasons.length, { data_type: signal })
    }

    return {
      async start() {
        if (url === null) shared()
      },
      export: (items, signal, abort) => (signal === 'rollouts' ? writeRollouts(items, abort) : writeOtel(items, signal, abort)),
      async shutdown() {
        await ownStorage.close((storage: OpenStorage) => storage.close())
        await ownConnection.close((connection: Connection) => connection.close())
      },
    }
  },
})

/** Something opened once, when first asked for; asked for again when that failed. */
function opened<T>(open: () => Promise<T>) {
  let opening: Promise<T> | undefined
  return {
    async get(): Promise<T> {
      opening ??= open()
      return opening.catch((error: unknown) => {
        opening = undefined
        throw error
      })
    },
    async close(close: (value: T) => Promise<void>): Promise<void> {
      await opening?.then(close, () => {})
      opening = undefined
    },
  }
}
