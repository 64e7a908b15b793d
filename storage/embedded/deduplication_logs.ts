// ClickHouse notes that it has a block before the block's part gets its name. Where it is killed (-9) in between, the part is gone, and the
// block, which comes again since nobody was answered, would be taken for one that is there, and be lost. So what its logs say of parts that
// are not there is taken out before it opens a folder.

import { readdir, readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const LOGS = 'deduplication_logs'
/** A log has a line for each block that came or went: which of the two, its part, and its name. */
const ADDED = '1'

/** @param folder ClickHouse's, which nobody has open. Rejects with the system's error where it cannot be read or written. */
export async function forgetUnstored(folder: string): Promise<void> {
  // Each table has a folder of its own, below one of three of its name's letters.
  const store = join(folder, 'store')
  for (const shard of await namesIn(store)) {
    for (const table of await namesIn(join(store, shard))) await mend(join(store, shard, table), join(folder, 'log.new'))
  }
}

/** @param draft a file outside of the table, where ClickHouse minds files that it does not know */
async function mend(table: string, draft: string): Promise<void> {
  const logs = await namesIn(join(table, LOGS))
  if (logs.length === 0) return
  const isStored = partsOf(await namesIn(table))
  for (const name of logs) {
    const log = join(table, LOGS, name)
    const lines = (await readFile(log, 'latin1')).split('\n')
    const kept = lines.filter((line) => {
      const [operation, part] = line.split('\t')
      return operation !== ADDED || isStored(part!)
    })
    if (kept.length === lines.length) continue
    await writeFile(draft, kept.join('\n'), 'latin1')
    await rename(draft, log)
  }
}

interface Part {
  readonly partition: string
  /** Numbers of the first and the last block in it. */
  readonly first: number
  readonly last: number
}

/** Whether a part of this name is there, by itself or merged with others. One whose name says something else is taken to be. */
function partsOf(names: readonly string[]): (name: string) => boolean {
  const partitions = new Map<string, Part[]>()
  for (const part of names.flatMap((name) => partOf(name) ?? [])) {
    const others = partitions.get(part.partition)
    if (others) others.push(part)
    else partitions.set(part.partition, [part])
  }
  return (name) => {
    const part = partOf(name)
    return !part || !!partitions.get(part.partition)?.some(({ first, last }) => first <= part.first && part.last <= last)
  }
}

function partOf(name: string): Part | null {
  const found = /^([^_]+)_(\d+)_(\d+)_\d+(?:_\d+)?$/.exec(name)
  return found && { partition: found[1]!, first: Number(found[2]), last: Number(found[3]) }
}

const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return []
    throw error
  })
