// Fields of a span or log record whose place or value goes into its columns.

import { isUtf8 } from 'node:buffer'

import { COLUMN } from './span_batch.ts'
import { int32, open, skip, tag, type Cursor } from './wire.ts'

/** Most values are: one that is nothing but a string is passed over, any other left alone. */
export function isString(c: Cursor, end: number): boolean {
  const { pos } = c
  const valueEnd = open(c, end)
  if (c.bytes[c.pos++] === 10 && c.pos < valueEnd && open(c, valueEnd) === valueEnd) {
    c.pos = valueEnd
    return true
  }
  c.pos = pos
  return false
}

export function status(c: Cursor, end: number, columns: Int32Array, at: number): void {
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 24) columns[at + COLUMN.status] = int32(c, end)
    else skip(c, field, end)
  }
}

export function name(c: Cursor, end: number, columns: Int32Array, at: number): void {
  const nameEnd = open(c, end)
  columns[at + COLUMN.name] = c.pos
  columns[at + COLUMN.name_length] = nameEnd - c.pos
  c.pos = nameEnd
}

export const WRONG = -1

/** Offset of an id, 0 where it is empty or all zero, WRONG where its length is. */
export function id(c: Cursor, end: number, size: number): number {
  const idEnd = open(c, end)
  const start = c.pos
  c.pos = idEnd
  if (idEnd - start !== size) return idEnd === start ? 0 : WRONG
  return isZero(c.bytes, start, size) ? 0 : start
}

export function isZero(bytes: Buffer, start: number, size: number): boolean {
  for (let i = start; i < start + size; i++) if (bytes[i] !== 0) return false
  return true
}

export function isText(bytes: Buffer, start: number, end: number): boolean {
  for (let i = start; i < end; i++) if (bytes[i]! >= 128) return isUtf8(bytes.subarray(start, end))
  return true
}
