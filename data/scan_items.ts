// What a scan has found so far: items as rows of columns and slots, what was rejected, and how much all of it may be.

import { MAX_DEPTH } from './check.ts'
import { isText } from './item_fields.ts'
import { keyTable, type KeyTable } from './key_table.ts'
import { NAMED, named, unnamed, type Rejected } from './refusal.ts'
import { openSheets, type Place } from './sheets.ts'
import { COLUMN, STRIDE, type Envelope, type SpanBatch } from './span_batch.ts'
import { Malformed, type Cursor } from './wire.ts'

/** Items in one request. Far above any exporter's batch; it bounds what a body of empty items costs. */
export const MAX_ITEMS = 1 << 17
/** Far above the limits of any SDK: what is two bytes in a request is a hundred where it is read. */
export const MAX_PARTS = 100_000
/** In one request. */
const MAX_ALL_PARTS = 1 << 22

export interface Scan {
  readonly c: Cursor
  readonly signal: 'traces' | 'logs'
  readonly keys: readonly string[]
  readonly table: KeyTable
  readonly columns: Place
  readonly slots: Place
  count: number
  /** Attributes, events, links and what is nested in them: of the item being read, and of all that was accepted. Infinity: deeper than MAX_DEPTH. */
  parts: number
  allParts: number
  readonly resources: Envelope[]
  readonly scopes: Envelope[]
  readonly rejected: Rejected[]
}

// Scans do not overlap.
const columnSheets = openSheets()
const slotSheets = openSheets()

export const beginScan = (signal: Scan['signal'], body: Buffer, keys: readonly string[]): Scan => ({
  c: { bytes: body, pos: 0 },
  signal,
  keys,
  table: keyTable(keys),
  columns: columnSheets.begin(),
  slots: slotSheets.begin(),
  count: 0,
  parts: 0,
  allParts: 0,
  resources: [],
  scopes: [],
  rejected: [],
})

export function forgetItems(s: Scan): void {
  for (const { cells, start } of [s.columns, s.slots]) cells.fill(0, start)
  s.count = 0
}

export function endScan(s: Scan): void {
  columnSheets.end(s.columns, s.count * STRIDE)
  slotSheets.end(s.slots, s.count * s.keys.length)
}

/** Of all items. */
export const cellsOf = ({ columns, slots, count, keys }: Scan): Pick<SpanBatch, 'columns' | 'slots'> => ({
  columns: kept(columns, count * STRIDE),
  slots: kept(slots, count * keys.length),
})

const kept = ({ cells, start }: Place, length: number): Int32Array => cells.subarray(start, start + length)

/** Makes room for one more item and returns where its columns begin. */
export function newItem(s: Scan, end: number): number {
  if (s.count + s.rejected.length === MAX_ITEMS) throw new Malformed(`more than ${MAX_ITEMS} items in one request`)
  columnSheets.makeRoom(s.columns, s.count * STRIDE, STRIDE)
  slotSheets.makeRoom(s.slots, s.count * s.keys.length, s.keys.length)
  const { cells, start } = s.columns
  const at = start + s.count * STRIDE
  cells[at + COLUMN.start] = s.c.pos
  cells[at + COLUMN.end] = end
  // Pushed only if an item of theirs is accepted: a body of empty envelopes must cost nothing.
  cells[at + COLUMN.resource] = s.resources.length
  cells[at + COLUMN.scope] = s.scopes.length
  s.parts = 0
  return at
}

export function accept(s: Scan, at: number): void {
  const { cells } = s.columns
  const start = cells[at + COLUMN.name]!
  if (s.parts === Infinity) reject(s, at, `a value is nested deeper than ${MAX_DEPTH} messages`)
  else if (s.parts > MAX_PARTS) reject(s, at, `more than ${MAX_PARTS} attributes, events, links and values within them`)
  // Attribute values are repaired when they are read; the name goes to a column as it is.
  else if (!isText(s.c.bytes, start, start + cells[at + COLUMN.name_length]!)) reject(s, at, 'the name is not UTF-8')
  else {
    countParts(s, s.parts)
    s.count++
  }
}

export function countParts(s: Scan, parts: number): void {
  s.allParts += parts
  if (s.allParts > MAX_ALL_PARTS) throw new Malformed(`more than ${MAX_ALL_PARTS} attributes, events, links and values in one request`)
}

export function reject(s: Scan, at: number, problem: string): void {
  const { rejected, signal, count } = s
  rejected.push(rejected.length < NAMED ? named(signal, count + rejected.length + 1, nameAt(s, at), problem) : unnamed(problem))
  const slot = s.slots.start + count * s.keys.length
  s.columns.cells.fill(0, at, at + STRIDE)
  s.slots.cells.fill(0, slot, slot + s.keys.length)
}

function nameAt({ c, columns: { cells } }: Scan, at: number): Buffer {
  const start = cells[at + COLUMN.name]!
  return c.bytes.subarray(start, start + cells[at + COLUMN.name_length]!)
}
