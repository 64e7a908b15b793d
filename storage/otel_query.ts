// Questions to an otel_traces table, whatever generation of the Collector's exporter made it: columns that it lacks are filled in, and
// attributes come from maps or from JSON columns. Nothing here writes.

import type { ClickHouseClient } from '@clickhouse/client'

import { quoted } from './otel_tables.ts'

/** How each kind of attributes arrives: as a map of text, or as JSON in text. */
export type Forms = Readonly<Record<'resource' | 'span' | 'event' | 'link', 'map' | 'json'>>

export interface OtelTable {
  readonly forms: Forms
  /** Rows of a time range as RowBinary, with columns in the order of `otel_read.ts`; parameters `from` and `to`, nanoseconds. Rows are in no order: to sort them took a fifth of what it takes to read them. */
  readonly spans: string
  /** How many spans each unit of time of a range has, in order; likewise, and parameter `unit`. */
  readonly counts: string
}

/** Rejects where the table is none of the Collector's. */
export async function openOtelTable(client: ClickHouseClient, table: string): Promise<OtelTable> {
  const answer = await client.query({ query: `DESCRIBE TABLE ${quoted(table)}`, format: 'JSONEachRow' })
  const columns = new Map(
    (await answer.json<{ name: string; type: string }>()).flatMap(({ name, type }) => [[name, type] as const, ...within(name, type)]),
  )
  const missing = ['Timestamp', 'TraceId', 'SpanId', 'SpanAttributes'].filter((name) => !columns.has(name))
  if (missing.length > 0) throw new Error(`"${table}" is no otel_traces table: it has no column ${missing.join(', ')}`)
  const formOf = (name: string) => (/^(Array\()?JSON/.test(columns.get(name) ?? '') ? 'json' : 'map')
  const forms: Forms = {
    resource: formOf('ResourceAttributes'),
    span: formOf('SpanAttributes'),
    event: formOf('Events.Attributes'),
    link: formOf('Links.Attributes'),
  }
  const from = `FROM ${quoted(table)} WHERE Timestamp >= fromUnixTimestamp64Nano({from:Int64}) AND Timestamp < fromUnixTimestamp64Nano({to:Int64})`
  return {
    forms,
    spans: `SELECT ${selected(columns, forms).join(', ')} ${from} FORMAT RowBinary`,
    counts: `SELECT intDiv(${nanoseconds('Timestamp')}, {unit:Int64}) AS at, toUInt32(count()) AS spans ${from} GROUP BY at ORDER BY at`,
  }
}

/** The parts of a nested column, which stand in a table's description by themselves unless the server was told not to flatten it. */
function within(name: string, type: string): [name: string, type: string][] {
  if (!type.startsWith('Nested(')) return []
  const parts = ['Timestamp', 'Name', 'TraceId', 'SpanId', 'TraceState', 'Attributes']
  return parts.flatMap((part) => {
    const [, of] = new RegExp(`\\b${part} (\\w+)`).exec(type) ?? []
    return of === undefined ? [] : [[`${name}.${part}`, `Array(${of})`]]
  })
}

const NO_TEXT = "''"
const NO_MAP = 'map()::Map(String, String)'
const NO_LIST = '[]::Array(String)'
const NO_MAPS = '[]::Array(Map(String, String))'
const asIs = (column: string) => column
const bytes = (column: string) => `unhex(${column})`
const eachBytes = (column: string) => `arrayMap(id -> unhex(id), ${column})`
const nanoseconds = (column: string) => `toUnixTimestamp64Nano(CAST(${column} AS DateTime64(9)))`
const asText = (column: string) => `toJSONString(${column})`
const eachAsText = (column: string) => `arrayMap(one -> toJSONString(one), ${column})`

function selected(columns: ReadonlyMap<string, string>, forms: Forms): string[] {
  const column = (name: string, otherwise: string, change = asIs) => (columns.has(name) ? change(`\`${name}\``) : otherwise)
  return [
    // These first, since many spans share them.
    column('ResourceAttributes', NO_MAP, forms.resource === 'json' ? asText : asIs),
    column('ScopeName', NO_TEXT),
    column('ScopeVersion', NO_TEXT),
    column('TraceId', NO_TEXT, bytes),
    column('SpanId', NO_TEXT, bytes),
    column('ParentSpanId', NO_TEXT, bytes),
    column('TraceState', NO_TEXT),
    column('SpanName', NO_TEXT),
    column('SpanKind', '0::UInt8', numberIn(['internal', 'server', 'client', 'producer', 'consumer'])),
    nanoseconds('Timestamp'),
    column('Duration', '0::Int64', (name) => `greatest(toInt64(${name}), 0)`),
    column('StatusCode', '0::UInt8', numberIn(['ok', 'error'])),
    column('StatusMessage', NO_TEXT),
    column('SpanAttributes', NO_MAP, forms.span === 'json' ? asText : asIs),
    column('Events.Timestamp', '[]::Array(Int64)', (name) => `arrayMap(time -> ${nanoseconds('time')}, ${name})`),
    column('Events.Name', NO_LIST),
    column('Events.Attributes', NO_MAPS, forms.event === 'json' ? eachAsText : asIs),
    column('Links.TraceId', NO_LIST, eachBytes),
    column('Links.SpanId', NO_LIST, eachBytes),
    column('Links.TraceState', NO_LIST),
    column('Links.Attributes', NO_MAPS, forms.link === 'json' ? eachAsText : asIs),
  ]
}

/** Enums as numbers, from names as they are (`Client`) and as they were (`SPAN_KIND_CLIENT`). */
const numberIn = (names: readonly string[]) => (column: string) =>
  `toUInt8(indexOf([${names.map((name) => `'${name}'`).join(', ')}], replaceRegexpOne(lower(${column}), '^(span_kind|status_code)_', '')))`
