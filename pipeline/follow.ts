// Files that grow: each is read from where reading stopped last, through renames, truncation and rotation. A file is known by its
// inode and its first bytes, so a renamed one goes on where it was, and one that took its place begins anew.

import { createHash } from 'node:crypto'
import { open, stat, type FileHandle } from 'node:fs/promises'

import type { Part } from '../data/json_lines.ts'
import { Refused } from './component.ts'

/** How far a file was read. */
export interface Place {
  readonly inode: string
  readonly offset: number
  /** Digest of the first bytes, and how many they are. */
  readonly head: string
  readonly head_bytes: number
}

/** Uses what it can of a part of a file and returns how many bytes that were; the rest comes again, and more with it. */
export type Take = (path: string, part: Part) => Promise<number>

export interface Follower {
  /** Reads on in these files, in this order, and to its end what was followed and is not among them any more. Rejects when `take` does. */
  poll(paths: readonly string[]): Promise<void>
  places(): Place[]
  close(): Promise<void>
}

interface Followed {
  path: string
  readonly inode: string
  offset: number
  head: string
  head_bytes: number
  /** Size at which there was nothing to use; until it changes there is nothing to do. */
  idle_at: number
  /** When its name was gone, or when it grew after that. */
  missed_at: number | undefined
  handle: FileHandle | undefined
}

const CHUNK = 1 << 20
/** As much as the otlp receiver takes in one request. */
const LARGEST_CHUNK = 64 << 20
const HEAD = 1_024
/** Files kept open, so that what is written to them after a rotation is read. */
const MAX_OPEN = 256
const MAX_GONE = 1_000
/** How long after a rotation a writer may take to open the new file. */
const WRITTEN_STILL_MS = 10_000

/** @param from_end begins files that are found by the first poll, and were not known before, at their end */
export function follow(known: readonly Place[], from_end: boolean, take: Take): Follower {
  const files = new Map<string, Followed>()
  /** Places in files that have no name here, or had none when it was looked for: just then they may have got another. */
  const gone = new Map(known.map((place) => [place.inode, place]))
  let skip = from_end

  async function poll(paths: readonly string[]): Promise<void> {
    const seen = new Set<string>()
    const problems: unknown[] = []
    /** A file that cannot be read stops no other; a pipeline that cannot take more does. */
    async function attempt(job: () => Promise<void>): Promise<void> {
      await job().catch((error: unknown) => {
        if (error instanceof Refused) throw error
        problems.push(error)
      })
    }
    for (const path of paths) {
      const found = await stat(path, { bigint: true }).catch(() => undefined)
      if (!found) continue
      const inode = `${found.dev}:${found.ino}`
      seen.add(inode)
      const file = files.get(inode) ?? begin(path, inode, Number(found.size))
      file.path = path
      file.missed_at = undefined
      if (Number(found.size) !== file.idle_at) await attempt(() => readOn(file))
    }
    skip = false
    for (const file of files.values()) if (!seen.has(file.inode)) await attempt(() => leave(file))
    await closeSome()
    if (problems.length > 0) throw problems[0]
  }

  function begin(path: string, inode: string, size: number): Followed {
    const place = gone.get(inode) ?? { offset: skip ? size : 0, head: digest(Buffer.alloc(0)), head_bytes: 0 }
    const { offset, head, head_bytes } = place
    const file = { path, inode, offset, head, head_bytes, idle_at: -1, missed_at: undefined, handle: undefined }
    files.set(inode, file)
    gone.delete(inode)
    return file
  }

  async function readOn(file: Followed): Promise<void> {
    file.handle ??= await open(file.path)
    const { handle } = file
    for (let wanted = CHUNK; ;) {
      const { size } = await handle.stat()
      if (size < file.offset || !(await sameHead(handle, file))) Object.assign(file, { offset: 0, head_bytes: 0 })
      const { offset } = file
      const bytes = await read(handle, offset, Math.min(wanted, size - offset))
      const last = offset + bytes.length >= size
      const used = bytes.length === 0 ? 0 : await take(file.path, { offset, bytes, last, full: bytes.length === LARGEST_CHUNK })
      if (used > 0) {
        file.offset += used
        await noteHead(handle, file)
      }
      if (last) {
        file.idle_at = size
        return
      }
      wanted = used > 0 ? CHUNK : Math.min(wanted * 2, LARGEST_CHUNK)
    }
  }

  /** Its name is gone: rotated away, or deleted. Its writer may still write to it for a while, and what is open can be read. */
  async function leave(file: Followed): Promise<void> {
    file.missed_at ??= Date.now()
    const before = file.offset
    if (file.handle) await readOn(file)
    if (file.offset > before) file.missed_at = Date.now()
    if (file.handle && Date.now() - file.missed_at < WRITTEN_STILL_MS) return
    await file.handle?.close()
    files.delete(file.inode)
    gone.set(file.inode, placeOf(file))
    for (const inode of gone.keys()) {
      if (gone.size <= MAX_GONE) break
      gone.delete(inode)
    }
  }

  async function closeSome(): Promise<void> {
    const open = [...files.values()].filter(({ handle }) => handle)
    for (const file of open.slice(0, Math.max(0, open.length - MAX_OPEN))) {
      await file.handle?.close()
      file.handle = undefined
    }
  }

  return {
    poll,
    places: () => [...gone.values(), ...[...files.values()].map(placeOf)],
    async close() {
      for (const file of files.values()) {
        await file.handle?.close()
        file.handle = undefined
      }
    },
  }
}

const placeOf = ({ inode, offset, head, head_bytes }: Followed): Place => ({ inode, offset, head, head_bytes })

async function sameHead(handle: FileHandle, { head, head_bytes }: Followed): Promise<boolean> {
  return head_bytes === 0 || digest(await read(handle, 0, head_bytes)) === head
}

async function noteHead(handle: FileHandle, file: Followed): Promise<void> {
  if (file.head_bytes === HEAD) return
  file.head_bytes = Math.min(HEAD, file.offset)
  file.head = digest(await read(handle, 0, file.head_bytes))
}

async function read(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const { buffer, bytesRead } = await handle.read(Buffer.allocUnsafe(length), 0, length, position)
  return buffer.subarray(0, bytesRead)
}

const digest = (bytes: Buffer): string => createHash('sha1').update(bytes).digest('hex')
