// The small JSON files of a Hugging Face folder.

import { existsSync, readFileSync } from 'node:fs'

export type Json = Readonly<Record<string, any>>

/** Undefined where there is no such file. Throws, naming the file, where it is no JSON. */
export function readJson(file: string): Json | undefined {
  return existsSync(file) ? naming(file, () => JSON.parse(readFileSync(file, 'utf8')) as Json) : undefined
}

/** Whatever goes wrong in the work is told of the file. */
export function naming<T>(file: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new Error(`${file}: ${(error as Error).message}`)
  }
}

/** A token of tokenizer_config.json is its text, or an object that holds it. */
export function tokenText(token: unknown): string | undefined {
  const text = typeof token === 'object' && token !== null ? (token as Json).content : token
  return typeof text === 'string' ? text : undefined
}
