// Where a span stands, read from its bytes: no string is made of its id and no bigint of its times. What else it says is passed over.

import { REMOTE_PARENT } from './span_batch.ts'
import { fixed, int32, open, skip, tag, type Cursor } from './wire.ts'

/** What was found in the span `of`, as offsets into it; 0 is "absent". */
export const head = {
  of: undefined as Buffer | undefined,
  ...{ trace_id: 0, span_id: 0, parent_span_id: 0, start_time: 0, end_time: 0, status: 0, remote_parent: false },
}

/** Of a span that scan() accepted. Who asks for the one that was walked through last is answered at once. */
export function readHead(payload: Buffer): void {
  if (head.of === payload) return
  const c = { bytes: payload, pos: 0 }
  const end = payload.length
  forgetHead()
  while (c.pos < end) readHeadField(c, tag(c, end), end)
  head.of = payload
}

export function forgetHead(): void {
  head.of = undefined
  head.trace_id = head.span_id = head.parent_span_id = head.start_time = head.end_time = head.status = 0
  head.remote_parent = false
}

/** Notes the field that stands there, or passes over it. */
export function readHeadField(c: Cursor, field: number, end: number): void {
  if (field === 10) head.trace_id = filled(c, end)
  else if (field === 18) head.span_id = filled(c, end)
  else if (field === 34) head.parent_span_id = filled(c, end)
  else if (field === 57) head.start_time = fixed(c, 8, end)
  else if (field === 65) head.end_time = fixed(c, 8, end)
  else if (field === 122) readStatus(c, open(c, end))
  else if (field === 133) head.remote_parent = (c.bytes.readUInt32LE(fixed(c, 4, end)) & REMOTE_PARENT) === REMOTE_PARENT
  else skip(c, field, end)
}

/** Where an id stands, which may be empty. */
function filled(c: Cursor, end: number): number {
  const idEnd = open(c, end)
  const start = c.pos
  c.pos = idEnd
  return idEnd === start ? 0 : start
}

function readStatus(c: Cursor, end: number): void {
  while (c.pos < end) {
    const field = tag(c, end)
    if (field === 24) head.status = int32(c, end)
    else skip(c, field, end)
  }
}
