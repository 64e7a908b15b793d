import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { beforeEach, expect, onTestFinished, test } from 'vitest'

import { testContext } from '../../test/conformance.ts'
import { seeded } from '../../test/random.ts'
import { openDiskQueue, type DiskQueue, type Room } from './disk_queue.ts'
import { HEADER_BYTES } from './records.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'leyden-queue-'))
  onTestFinished(() => rm(folder, { recursive: true }))
})

const SEGMENT_BYTES = 4_096

/** Room for so many bytes. */
function roomOf(bytes: number): Room & { left(): number } {
  let left = bytes
  return {
    take: (wanted) => wanted <= left && (left -= wanted) >= 0,
    occupy: (there) => void (left -= there),
    give: (back) => void (left += back),
    left: () => left,
  }
}

async function opened({ room = roomOf(1 << 30), segmentBytes = SEGMENT_BYTES, fsync = true } = {}): Promise<
  DiskQueue & { context: ReturnType<typeof testContext> }
> {
  const context = testContext()
  const queue = await openDiskQueue({ folder, fsync, segmentBytes, room, context })
  return { ...queue, context }
}

const record = (text: string, items = 1) => ({ items, kind: 0, payload: Buffer.from(text) })
const texts = (count: number, from = 0) => Array.from({ length: count }, (_, i) => `record ${from + i} ${'.'.repeat(100)}`)

/** Everything that can be read now; delivered unless told. */
async function drained(queue: DiskQueue, deliver = true): Promise<string[]> {
  const found: string[] = []
  for (let next = await queue.next(); next; next = await queue.next()) {
    found.push(next.payload.toString())
    if (deliver) queue.delivered(next.sequence)
  }
  return found
}

const segments = async () => (await readdir(folder)).filter((name) => name.endsWith('.segment')).sort()
const pathOf = async (index: number) => join(folder, (await segments()).at(index)!)

test('what is appended is read once, in order, also what comes while it is read', async () => {
  const queue = await opened()
  await queue.append(texts(100).map((text) => record(text)))
  expect(await drained(queue)).toEqual(texts(100))
  await queue.append([record('later')])
  expect(await drained(queue)).toEqual(['later'])
  expect(await queue.next()).toBeUndefined()
  await queue.close()
})

test('appends at the same time keep their order and share a sync', async () => {
  const queue = await opened()
  await Promise.all(texts(500).map((text) => queue.append([record(text)])))
  expect(queue.size).toEqual({ requests: 500, items: 500, bytes: texts(500).join('').length })
  expect(await drained(queue)).toEqual(texts(500))
  expect(queue.size).toEqual({ requests: 0, items: 0, bytes: 0 })
  await queue.close()
})

test('a restart goes on with what is not delivered, whatever of it was read', async () => {
  const queue = await opened()
  await queue.append(texts(100).map((text) => record(text, 2)))
  for (let i = 0; i < 40; i++) queue.delivered((await queue.next())!.sequence)
  await drained(queue, false)
  await queue.close()
  const again = await opened()
  expect(again.size.items).toBe(120)
  expect(await drained(again)).toEqual(texts(60, 40))
  await again.close()
})

test('what was delivered out of turn is read again after a restart if something before it was not', async () => {
  const queue = await opened()
  await queue.append(texts(3).map((text) => record(text)))
  const [first, second] = [await queue.next(), await queue.next()]
  queue.delivered(second!.sequence)
  await queue.close()
  const again = await opened()
  expect(await drained(again, false)).toEqual(texts(3))
  again.delivered(first!.sequence)
  await again.close()
})

test('segments go as they are delivered, and a queue without anything leaves none', async () => {
  const room = roomOf(1 << 20)
  const queue = await opened({ room })
  for (let i = 0; i < 100; i++) await queue.append([record(texts(1, i)[0]!)])
  expect((await segments()).length).toBeGreaterThan(2)
  await drained(queue)
  await queue.close()
  expect([await segments(), room.left()]).toEqual([[], 1 << 20])
  const again = await opened()
  await again.append([record('new')])
  expect(await drained(again)).toEqual(['new'])
  await again.close()
})

test('a full queue refuses, and takes again when there is room', async () => {
  const room = roomOf(3 * (HEADER_BYTES + texts(1)[0]!.length))
  const queue = await opened({ room, segmentBytes: 1 })
  const append = (i: number) => queue.append([record(texts(1, i)[0]!)])
  for (let i = 0; i < 3; i++) await append(i)
  await expect(append(3)).rejects.toThrow('the queue on disk is full')
  queue.delivered((await queue.next())!.sequence)
  await expect.poll(() => room.left()).toBeGreaterThan(0)
  await append(3)
  await queue.close()
  const again = await opened({ room: roomOf(0) })
  await expect(again.append([record('more')])).rejects.toThrow('the queue on disk is full')
  expect(await drained(again)).toEqual(texts(3, 1))
  await again.close()
})

test('a disk that is full refuses, and nothing that was taken is lost', async () => {
  const queue = await opened()
  await queue.append([record('before')])
  await rm(folder, { recursive: true }) // no new segment can be made here
  const large = { items: 1, kind: 0, payload: Buffer.alloc(SEGMENT_BYTES) }
  await queue.append([large]) // the open segment still is a file
  await expect(queue.append([large])).rejects.toThrow(/^the queue on disk cannot be written: ENOENT/)
  expect(await drained(queue)).toHaveLength(2)
  await queue.close()
  await mkdir(folder)
})

test.each([1, HEADER_BYTES - 1, HEADER_BYTES + 1, HEADER_BYTES + 60])('a tail torn after %d bytes is cut off', async (bytes) => {
  const queue = await opened()
  await queue.append(texts(3).map((text) => record(text)))
  await queue.close()
  const path = await pathOf(-1)
  const whole = (HEADER_BYTES + texts(1)[0]!.length) * 2
  await truncate(path, whole + bytes)
  const again = await opened()
  expect(again.context.lines.map(({ text }) => text)).toEqual([
    'warn A record was being written to the queue on disk when Leyden ended; it is cut off',
  ])
  await again.append([record('new')])
  await again.close()
  const third = await opened()
  expect([await drained(third), third.context.lines]).toEqual([[...texts(2), 'new'], []])
  await third.close()
})

test('one damaged record costs itself, and its segment is kept when the rest is delivered', async () => {
  const queue = await opened()
  for (let i = 0; i < 100; i++) await queue.append([record(texts(1, i)[0]!)])
  await queue.close()
  const path = await pathOf(0)
  const bytes = await readFile(path)
  bytes[bytes.indexOf('record 7 ') + 3]! ^= 1
  await writeFile(path, bytes)
  const again = await opened()
  expect(again.size.requests).toBe(99)
  expect(await drained(again)).toEqual(texts(100).filter((_, i) => i !== 7))
  await again.close()
  expect(again.context.counts).toEqual({ leyden_queue_damaged_bytes: HEADER_BYTES + texts(1, 7)[0]!.length })
  expect((await readdir(folder)).sort()).toEqual(['0000000000000001.segment.corrupt', 'position'])
})

test('a segment whose framing is lost costs its rest, not the segments behind it', async () => {
  const queue = await opened()
  for (let i = 0; i < 100; i++) await queue.append([record(texts(1, i)[0]!)])
  await queue.close()
  const path = await pathOf(1)
  const bytes = await readFile(path)
  const lost = bytes.length - 500
  bytes.fill(0xff, 500)
  await writeFile(path, bytes)
  const again = await opened()
  const left = await drained(again)
  expect(again.context.counts.leyden_queue_damaged_bytes).toBeGreaterThanOrEqual(lost)
  expect(left.at(-1)).toBe(texts(1, 99)[0])
  expect(left).toEqual(texts(100).filter((text) => left.includes(text)))
  await again.append([record('new')])
  expect(await drained(again)).toEqual(['new'])
  await again.close()
})

test('any damage to any byte never keeps the queue from opening, and never brings up what was not written', async () => {
  const random = seeded(7)
  const written = texts(60)
  const queue = await opened({ segmentBytes: 1_000, fsync: false })
  for (const text of written) await queue.append([record(text)])
  await queue.close()
  const original = folder
  for (let round = 0; round < 30; round++) {
    folder = await mkdtemp(join(tmpdir(), 'leyden-queue-'))
    for (const name of await readdir(original)) await copyFile(join(original, name), join(folder, name))
    const path = await pathOf(random((await segments()).length))
    const bytes = await readFile(path)
    if (random(10) < 3) await truncate(path, random(bytes.length))
    else {
      for (let i = 0; i < 1 + random(3); i++) bytes[random(bytes.length)] = random(256)
      await writeFile(path, bytes)
    }
    const damaged = await opened({ fsync: false })
    await damaged.append([record('new')])
    const found = await drained(damaged)
    expect(found).toEqual([...written.filter((text) => found.includes(text)), 'new'])
    expect(found.length).toBeGreaterThan(40)
    await damaged.close()
    await rm(folder, { recursive: true })
  }
  folder = original
})

test('a position that cannot be read costs a second delivery, not a record', async () => {
  const queue = await opened()
  await queue.append(texts(5).map((text) => record(text)))
  queue.delivered((await queue.next())!.sequence)
  await queue.close()
  await writeFile(join(folder, 'position'), 'nonsense!!!!')
  const again = await opened()
  expect(await drained(again)).toEqual(texts(5))
  await again.close()
})

test('a folder that is made read-only refuses what it cannot hold, keeps what it has, and goes on when it may', async () => {
  const room = roomOf(1 << 20)
  await asAnybody(async () => {
    const queue = await opened({ room })
    await queue.append(texts(50).map((text) => record(text)))
    await chmod(folder, 0o500)
    await expect(queue.append([record('refused')])).rejects.toThrow(/^the queue on disk cannot be written: EACCES/)
    expect(await drained(queue)).toEqual(texts(50))
    await expect.poll(() => queue.context.lines.map(({ text }) => text)).toContain(STAYS)
    await chmod(folder, 0o700)
    await queue.append([record('new')])
    expect(await drained(queue)).toEqual(['new'])
    await queue.close()
  })
  expect(room.left()).toBe(1 << 20)
  expect(await segments()).toEqual([])
})

const STAYS = 'warn What was delivered cannot be taken out of the queue on disk'
const NOBODY = 65_534

/** Modes of files do not bind root. */
async function asAnybody(work: () => Promise<void>): Promise<void> {
  if (process.geteuid!() !== 0) return work()
  await chown(folder, NOBODY, NOBODY)
  process.seteuid!(NOBODY)
  try {
    await work()
  } finally {
    process.seteuid!(0)
  }
}

test('kill -9 while records are appended loses none that was acknowledged', async () => {
  const program = `
    import { writeSync } from 'node:fs'
    const { openDiskQueue } = await import(${JSON.stringify(new URL('../../dist/pipeline/disk/disk_queue.js', import.meta.url).href)})
    const room = { take: () => true, occupy() {}, give() {} }
    const context = { count() {}, log: { warn() {}, error() {} } }
    const queue = await openDiskQueue({ folder: ${JSON.stringify(folder)}, fsync: true, segmentBytes: 200_000, room, context })
    let n = 0
    async function append() {
      for (;;) {
        const text = process.pid + '-' + n++
        await queue.append([{ items: 1, kind: 0, payload: Buffer.from(text.padEnd(20_000)) }])
        writeSync(1, text + '\\n')
      }
    }
    for (let i = 0; i < 8; i++) append()`
  const acknowledged: string[] = []
  for (let round = 0; round < 3; round++) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
      if (output.length > 1_000) child.kill('SIGKILL')
    })
    await once(child, 'close')
    acknowledged.push(...output.split('\n').slice(0, -1))
  }
  const queue = await opened()
  const found = (await drained(queue)).map((text) => text.trim())
  await queue.close()
  expect(acknowledged.filter((text) => !found.includes(text))).toEqual([])
  expect(new Set(found).size).toBe(found.length)
  expect(acknowledged.length).toBeGreaterThan(100)
})
