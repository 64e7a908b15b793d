// Fields of a span as nearly all exporters write them. Each is passed over, checked, by a few comparisons and without a cursor; whatever is
// written otherwise is left to scan.ts, which reads any.

import { isZero } from './item_fields.ts'
import { COLUMN } from './span_batch.ts'

/** Passes over an id, a time, the name or the kind, whose tag stands at `pos`, and notes it. Returns where it ends; 0 for any other field. */
export function passPlainField(bytes: Buffer, pos: number, end: number, columns: Int32Array, at: number): number {
  if (pos + 1 >= end) return 0
  const next = bytes[pos + 1]!
  switch (bytes[pos]) {
    case 10:
      if (next !== 16 || pos + 18 > end || isZero(bytes, pos + 2, 16)) return 0
      columns[at + COLUMN.trace_id] = pos + 2
      return pos + 18
    case 18:
      if (next !== 8 || pos + 10 > end || isZero(bytes, pos + 2, 8)) return 0
      columns[at + COLUMN.span_id] = pos + 2
      return pos + 10
    case 34:
      if (next !== 8 || pos + 10 > end || isZero(bytes, pos + 2, 8)) return 0
      columns[at + COLUMN.parent_span_id] = pos + 2
      return pos + 10
    case 42:
      if (next > 127 || pos + 2 + next > end) return 0
      columns[at + COLUMN.name] = pos + 2
      columns[at + COLUMN.name_length] = next
      return pos + 2 + next
    case 48:
      if (next > 127) return 0
      columns[at + COLUMN.kind] = next
      return pos + 2
    case 57:
      if (pos + 9 > end) return 0
      columns[at + COLUMN.start_time] = pos + 1
      return pos + 9
    case 65:
      if (pos + 9 > end) return 0
      columns[at + COLUMN.end_time] = pos + 1
      return pos + 9
    default:
      return 0
  }
}
