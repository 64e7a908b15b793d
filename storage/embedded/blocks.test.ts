import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { expect, test } from 'vitest'

import { stopEmbedded } from '../../test/storage.ts'
import { connect } from '../connection.ts'
import { readBlocks, writeBlocks } from './blocks.ts'

/** As a stream whose pieces are cut anywhere. */
async function* pieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function read(bytes: Buffer, size = bytes.length): Promise<Buffer> {
  const content: Buffer[] = []
  for await (const block of readBlocks(pieces(bytes, size))) content.push(block)
  return Buffer.concat(content)
}

test('what ClickHouse itself has written is read, its checksums and its LZ4', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'leyden-'))
  const { client, close } = await connect({ url: `embedded:${folder}`, database: 'default', username: 'default', password: '' })
  try {
    const settings = 'min_bytes_for_wide_part = 0, min_bytes_for_full_part_storage = 0'
    await client.command({ query: `CREATE TABLE texts (n UInt64, text String) ENGINE = MergeTree ORDER BY n SETTINGS ${settings}` })
    await client.command({ query: `INSERT INTO texts SELECT number, concat('line ', toString(number * number)) FROM numbers(50000)` })
    const files = await readdir(join(folder, 'clickhouse', 'store'), { recursive: true })
    const numbers = files.filter((file) => file.endsWith('/n.bin')).map((file) => join(folder, 'clickhouse', 'store', file))
    expect(numbers).toHaveLength(1)
    const content = await read(await readFile(numbers[0]!), 10_000)
    expect([...new BigUint64Array(new Uint8Array(content).buffer)]).toEqual(Array.from({ length: 50_000 }, (_, i) => BigInt(i)))
  } finally {
    await close()
    await stopEmbedded(folder)
    await rm(folder, { recursive: true })
  }
})

test.each([0, 1, 5_000_000])('%i bytes come back from blocks of our own', async (size) => {
  const bytes = Buffer.alloc(size, 'words and more ')
  expect((await read(writeBlocks(bytes), 70_000)).equals(bytes)).toBe(true)
})

test('what is damaged, cut off or of another method is refused', async () => {
  const bytes = writeBlocks(Buffer.from('a few words'))
  await expect(read(Buffer.from(bytes).fill('x', 30, 31))).rejects.toThrow('wrong checksum')
  await expect(read(bytes.subarray(0, 30))).rejects.toThrow('ends early')
  const giant = Buffer.from(bytes)
  giant.writeUInt32LE(0xffffffff, 17)
  await expect(read(giant)).rejects.toThrow('size that cannot be')
})
