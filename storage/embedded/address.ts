// Where the server of a folder is to be found: a file in the folder that only its owner may read.

import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export interface Address {
  readonly port: number
  readonly pid: number
  readonly password: string
}

/** Exit code of a server that found its folder served by another. */
export const ALREADY_SERVED = 76

const file = (folder: string): string => join(folder, 'server.json')

/** null: no server was ever started here. */
export async function readAddress(folder: string): Promise<Address | null> {
  try {
    return JSON.parse(await readFile(file(folder), 'utf8')) as Address
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

export async function writeAddress(folder: string, address: Address): Promise<void> {
  const draft = `${file(folder)}.${process.pid}`
  await writeFile(draft, JSON.stringify(address), { mode: 0o600 })
  await rename(draft, file(folder))
}
