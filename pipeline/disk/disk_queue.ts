// A queue in a folder of append-only segments. A record is taken once it is synced, and gone once the reader says that it was
// delivered. Whatever a crash or the disk did meanwhile, the queue opens: a torn tail is cut off, for nobody was told that it is
// safe, and a segment with damage is set aside when the rest of it is delivered.

import { mkdir, readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'

import { Refused, type Context } from '../component.ts'
import { messageOf } from '../retry.ts'
import { openPosition } from './position.ts'
import { framed, HEADER_BYTES, records, type FoundRecord, type NewRecord, type StoredRecord } from './records.ts'
import { createSegment, firstOf, removeSegment, setAside, surveySegment, syncFolder, type Segment } from './segment.ts'

export interface DiskQueue {
  /** What is not delivered. The bytes are those of the payloads. */
  readonly size: Readonly<Record<'requests' | 'items' | 'bytes', number>>
  /** Resolves when the records are on disk; Refused when there is no room for them or they cannot be written. */
  append(added: readonly NewRecord[]): Promise<void>
  /** The next record that was not read since the queue was opened, in order; undefined where there is none yet. */
  next(): Promise<StoredRecord | undefined>
  /** What was read is delivered, in any order. It will not be read again, not after a restart either. */
  delivered(sequence: number): void
  /** What is not delivered stays for the next time. */
  close(): Promise<void>
}

/** The bytes that the queues of one disk share. */
export interface Room {
  /** False where so much is not left. */
  take(bytes: number): boolean
  /** Takes what lies there already, however much it is. */
  occupy(bytes: number): void
  give(bytes: number): void
}

export interface DiskQueueOptions {
  readonly folder: string
  readonly fsync: boolean
  /** A segment that holds so much is followed by another. */
  readonly segmentBytes: number
  readonly room: Room
  readonly context: Pick<Context, 'log' | 'count'>
}

interface Append {
  readonly added: readonly NewRecord[]
  readonly bytes: number
  readonly resolve: () => void
  readonly reject: (error: Error) => void
}

/** Where reading stands. */
interface Place {
  readonly segment: Segment
  at: number
  /** Of the record that must be there. */
  sequence: number
  /** Reads up to where the segment ended when it began; the segment may have grown since. */
  records: AsyncGenerator<FoundRecord> | undefined
  until: number
  last: number
}

/** A segment is small below this part of its full size. */
const SMALL = 64

export async function openDiskQueue({ folder, fsync, segmentBytes, room, context }: DiskQueueOptions): Promise<DiskQueue> {
  const { log, count } = context
  await mkdir(folder, { recursive: true, mode: 0o750 })
  if (fsync) await syncFolder(dirname(folder))
  const position = await openPosition(join(folder, 'position'))
  const size = { requests: 0, items: 0, bytes: 0 }
  const segments = await earlierSegments()
  /** Read, not delivered; in order. */
  const open = new Map<number, StoredRecord>()
  // A segment's own number is used up even if nothing in it can be read.
  let lastWritten = Math.max(position.at, ...segments.map(({ first, last }) => Math.max(first, last)))
  let lastRead = position.at
  let place: Place | undefined
  let writable: Segment | undefined
  let waiting: Append[] = []
  let writing: Promise<void> | undefined
  let tidying: Promise<void> = Promise.resolve()
  let tidyDue = false
  let closed = false

  async function earlierSegments(): Promise<Segment[]> {
    const names = (await readdir(folder)).filter((name) => firstOf(name) !== undefined).sort()
    const found: Segment[] = []
    for (const name of names) {
      const path = join(folder, name)
      try {
        const isLast = name === names.at(-1)
        const { segment, rest, torn } = await surveySegment(path, firstOf(name)!, isLast, (record) => {
          if (record.whole && record.sequence > position.at) grow(record)
        })
        found.push(segment)
        room.occupy(segment.size)
        if (torn) {
          log.warn('A record was being written to the queue on disk when Leyden ended; it is cut off', { segment: path, bytes: rest })
          await segment.file.truncate(segment.size)
        } else if (rest > 0) damage(segment, rest)
      } catch (error) {
        log.error('A segment of the queue on disk cannot be read at all; it is set aside', { segment: path, error: messageOf(error) })
        await setAside(path).catch(() => {})
      }
    }
    return found
  }

  function damage(segment: Segment, bytes: number): void {
    segment.damaged = true
    count('leyden_queue_damaged_bytes', bytes)
    log.error('Part of the queue on disk cannot be read; the segment is kept as .corrupt when the rest is delivered', {
      segment: segment.path,
      bytes,
    })
  }

  function grow({ items, payload }: NewRecord, by = 1): void {
    size.requests += by
    size.items += by * items
    size.bytes += by * payload.length
  }

  function append(added: readonly NewRecord[]): Promise<void> {
    const bytes = added.reduce((sum, { payload }) => sum + HEADER_BYTES + payload.length, 0)
    if (closed) return Promise.reject(new Refused('the queue on disk is closed'))
    if (!room.take(bytes)) return Promise.reject(new Refused('the queue on disk is full'))
    return new Promise((resolve, reject) => {
      waiting.push({ added, bytes, resolve, reject })
      writing ??= write()
    })
  }

  /** Whatever came while one group was synced is the next group. */
  async function write(): Promise<void> {
    while (waiting.length) {
      const group = waiting
      waiting = []
      const bytes = group.reduce((sum, one) => sum + one.bytes, 0)
      const added = group.flatMap((one) => one.added)
      try {
        await commit(added, bytes)
        for (const record of added) grow(record)
        for (const { resolve } of group) resolve()
      } catch (error) {
        room.give(bytes)
        for (const { reject } of group)
          reject(new Refused(`the queue on disk cannot be written: ${messageOf(error)}`, 1_000, { cause: error }))
      }
    }
    writing = undefined
  }

  async function commit(added: readonly NewRecord[], bytes: number): Promise<void> {
    if (writable && writable.size >= segmentBytes) writable = undefined
    if (!writable) segments.push((writable = await createSegment(folder, lastWritten + 1, fsync)))
    const segment = writable
    try {
      const { bytesWritten } = await segment.file.writev(
        added.flatMap((record, i) => framed(record, lastWritten + 1 + i)),
        segment.size,
      )
      if (bytesWritten < bytes) throw new Error('no space left on device')
      if (fsync) await segment.file.datasync()
    } catch (error) {
      await segment.file.truncate(segment.size).catch(() => {
        // What stands there may be read one day, so its numbers are used up.
        writable = undefined
        lastWritten += added.length
      })
      throw error
    }
    lastWritten += added.length
    segment.last = lastWritten
    segment.size += bytes
  }

  async function next(): Promise<StoredRecord | undefined> {
    for (;;) {
      const here = placeToRead()
      if (!here) return undefined
      place = here
      here.records ??= readOn(here)
      const step = await here.records.next().catch((error: unknown) => {
        log.error('The queue on disk cannot be read', { segment: here.segment.path, error: messageOf(error) })
        return { done: true } as const
      })
      if (step.done) {
        passEnd(here)
        continue
      }
      const record = step.value
      const bytes = record.end - here.at
      here.at = record.end
      here.sequence = record.sequence + 1
      if (record.sequence <= lastRead) continue
      lastRead = record.sequence
      if (record.whole) {
        open.set(record.sequence, record)
        return record
      }
      damage(here.segment, bytes)
      tidySoon()
    }
  }

  /** The rest of the segment that is being read, else the first that holds something new. */
  function placeToRead(): Place | undefined {
    if (place && (place.records || place.at < place.segment.size)) return place
    const segment = segments.find(({ last }) => last > lastRead)
    return segment && { segment, at: 0, sequence: segment.first, records: undefined, until: 0, last: 0 }
  }

  function readOn(here: Place): AsyncGenerator<FoundRecord> {
    const { segment, at, sequence } = here
    here.until = segment.size
    here.last = segment.last
    return records(segment.file, at, segment.size, sequence)
  }

  function passEnd(here: Place): void {
    here.records = undefined
    if (here.at === here.until) return
    damage(here.segment, here.until - here.at)
    here.at = here.until
    here.sequence = here.last + 1
    lastRead = Math.max(lastRead, here.last)
    tidySoon()
  }

  function delivered(sequence: number): void {
    const record = open.get(sequence)
    if (!record) return
    open.delete(sequence)
    grow(record, -1)
    tidySoon()
  }

  function tidySoon(): void {
    if (tidyDue) return
    tidyDue = true
    tidying = tidying.then(tidy).catch((error: unknown) => {
      log.warn('What was delivered cannot be taken out of the queue on disk', { error: messageOf(error) })
    })
  }

  async function tidy(): Promise<void> {
    tidyDue = false
    const [oldest] = open.keys()
    const done = oldest === undefined ? lastRead : oldest - 1
    if (done > position.at) await position.save(done)
    while (segments.length > 0 && segments[0]!.last <= done && isFinished(segments[0]!)) {
      const segment = segments[0]!
      if (segment === writable) writable = undefined
      await removeSegment(segment)
      segments.shift()
      room.give(segment.size)
    }
  }

  /** The segment that is written to is used on while it is small: a queue that is mostly empty should not make files all the time. */
  function isFinished(segment: Segment): boolean {
    return segment !== writable || (!writing && (closed || segment.size >= segmentBytes / SMALL))
  }

  async function close(): Promise<void> {
    if (closed) return
    closed = true
    await writing
    tidySoon()
    await tidying
    for (const { file } of segments) await file.close()
    await position.close()
  }

  tidySoon()
  return { size, append, next, delivered, close }
}
