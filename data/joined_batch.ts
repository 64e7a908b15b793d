// Many small batches as one. What is done for each batch costs more than what is done for each item, where a batch has but one.

import { openSheets, type Place } from './sheets.ts'
import { COLUMN, STRIDE, type SpanBatch } from './span_batch.ts'

/** Bytes that the bodies of so many batches take together. */
export const joinedSize = (batches: readonly SpanBatch[]): number => batches.reduce((sum, { body }) => sum + body.length, 0)

/**
 * All items of these batches, in their order. The batches are of one signal and have the same keys. `memory` becomes the body, and has
 * room for it: OTLP requests one after the other are one request that says what all of them say.
 */
export function joinBatches(batches: readonly SpanBatch[], memory: Buffer): SpanBatch {
  const { signal, keys } = batches[0]!
  const columns = columnSheets.begin()
  const slots = slotSheets.begin()
  const resources = []
  const scopes = []
  let count = 0
  let end = 0
  for (const batch of batches) {
    columnSheets.makeRoom(columns, count * STRIDE, batch.count * STRIDE)
    slotSheets.makeRoom(slots, count * keys.length, batch.count * keys.length)
    const at = columns.start + count * STRIDE
    shift(batch.columns, columns.cells, at, end)
    moveIndices(columns.cells, at, batch.count, resources.length, scopes.length)
    shiftAll(batch.slots, slots.cells, slots.start + count * keys.length, end)
    end += batch.body.copy(memory, end)
    count += batch.count
    resources.push(...batch.resources)
    scopes.push(...batch.scopes)
  }
  columnSheets.end(columns, count * STRIDE)
  slotSheets.end(slots, count * keys.length)
  return {
    ...{ signal, keys, count, resources, scopes },
    body: memory.subarray(0, end),
    columns: kept(columns, count * STRIDE),
    slots: kept(slots, count * keys.length),
  }
}

const columnSheets = openSheets()
const slotSheets = openSheets()
const kept = ({ cells, start }: Place, length: number): Int32Array => cells.subarray(start, start + length)

/** Which of an item's integers are offsets into the body. */
const IS_OFFSET = new Uint8Array(STRIDE)
for (const column of ['start', 'end', 'trace_id', 'span_id', 'parent_span_id', 'name', 'start_time', 'end_time', 'link'] as const) {
  IS_OFFSET[COLUMN[column]] = 1
}

function shift(from: Int32Array, to: Int32Array, at: number, by: number): void {
  for (let i = 0, column = 0; i < from.length; i++) {
    const value = from[i]!
    to[at + i] = value !== 0 && IS_OFFSET[column] === 1 ? value + by : value
    column = column + 1 === STRIDE ? 0 : column + 1
  }
}

function moveIndices(cells: Int32Array, at: number, count: number, resources: number, scopes: number): void {
  for (let item = at; item < at + count * STRIDE; item += STRIDE) {
    cells[item + COLUMN.resource]! += resources
    cells[item + COLUMN.scope]! += scopes
  }
}

function shiftAll(from: Int32Array, to: Int32Array, at: number, by: number): void {
  for (let i = 0; i < from.length; i++) if (from[i] !== 0) to[at + i] = from[i]! + by
}
