// One file of a queue on disk, named for its first record.

import { open, rename, rm, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'

import { HEADER_BYTES, records, type FoundRecord } from './records.ts'

export interface Segment {
  readonly path: string
  readonly file: FileHandle
  /** Sequence of its first record. */
  readonly first: number
  /** Sequence of its last; one less than `first` while it is empty. */
  last: number
  /** Bytes that hold records. */
  size: number
  /** Part of it could not be read: it is kept for whoever looks after the disk. */
  damaged: boolean
}

const NAME = /^(\d{16})\.segment$/

/** The sequence that a file's name says; undefined for any other file. */
export function firstOf(name: string): number | undefined {
  const match = NAME.exec(name)
  return match ? Number(match[1]) : undefined
}

export async function createSegment(folder: string, first: number, fsync: boolean): Promise<Segment> {
  const path = join(folder, `${String(first).padStart(16, '0')}.segment`)
  const file = await open(path, 'wx+', 0o640)
  if (fsync) await syncFolder(folder)
  return { path, file, first, last: first - 1, size: 0, damaged: false }
}

export interface Survey {
  readonly segment: Segment
  /** Bytes behind the last record. */
  readonly rest: number
  /** Whether the rest is a record that was being written when the process or the machine died. */
  readonly torn: boolean
}

/** Opens a segment of an earlier run and reads through it. `isLast`: nothing was written after it. */
export async function surveySegment(path: string, first: number, isLast: boolean, see: (record: FoundRecord) => void): Promise<Survey> {
  const file = await open(path, 'r+')
  const { size: end } = await file.stat()
  const segment: Segment = { path, file, first, last: first - 1, size: 0, damaged: false }
  for await (const record of records(file, 0, end, first)) {
    if (isLast && !record.whole && record.end === end) break
    segment.last = record.sequence
    segment.size = record.end
    see(record)
  }
  const rest = end - segment.size
  const torn = rest > 0 && isLast && (await reachesTo(end, segment))
  return { segment, rest, torn }
}

/** Whether what stands behind the last record would, as a record, end where the file does or later. */
async function reachesTo(end: number, { file, size }: Segment): Promise<boolean> {
  const header = Buffer.alloc(HEADER_BYTES)
  const { bytesRead } = await file.read(header, { position: size })
  return bytesRead < HEADER_BYTES || size + HEADER_BYTES + header.readUInt32LE(0) >= end
}

/** All of it is delivered. What could not be read is kept beside the queue. */
export async function removeSegment({ path, file, damaged }: Segment): Promise<void> {
  await file.close()
  if (damaged) await setAside(path)
  else await rm(path, { force: true })
}

export async function setAside(path: string): Promise<void> {
  await rename(path, `${path}.corrupt`)
}

/** Makes the names in a folder durable. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder)
  await handle.sync()
  await handle.close()
}
