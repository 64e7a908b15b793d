// The text of a file that a user named.

import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'

import { UsageError } from './flags.ts'

/** Rejects with a UsageError that begins with the path as it was written. */
export async function readText(path: string, cwd: string): Promise<string> {
  return readFile(resolve(cwd, path), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new UsageError(`${path}: ${inWords(error)}`)
  })
}

/** What the system says of a file or folder, as a person would. */
export const inWords = ({ code = '', message }: NodeJS.ErrnoException): string => WORDS[code] ?? message

const WORDS: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  EISDIR: 'is a folder, not a file',
  ENOTDIR: 'is a file, not a folder',
  EACCES: 'may not be read',
}
