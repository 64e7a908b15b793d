// Where a receiver that reads something from its beginning has got to, in a small file that is written whole or not at all.

import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'

import { text } from './schema.ts'

export interface Progress<T> {
  /** undefined where nothing was saved yet. Rejects when there is a file and it cannot be read. */
  load(): Promise<T | undefined>
  save(place: T): Promise<void>
}

/** The option that names the file. */
export const progress_file = text(
  'File that remembers how far it has read, so that a restart goes on there; when absent, one in ./leyden_progress named for the receiver.',
  { default: null },
)

export function openProgress<T>(file: string | null, id: string): Progress<T> {
  const path = resolve(file ?? `leyden_progress/${id.replaceAll('/', '_')}.json`)
  return {
    async load() {
      try {
        return JSON.parse(await readFile(path, 'utf8')) as T
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
        throw new Error(`${path}: ${(error as Error).message}`, { cause: error })
      }
    },
    async save(place) {
      await mkdir(dirname(path), { recursive: true })
      await writeFile(`${path}.new`, JSON.stringify(place))
      await rename(`${path}.new`, path)
    },
  }
}
