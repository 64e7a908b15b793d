// Where configuration text comes from: file:path, env:NAME and yaml:text.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

import { merge } from './merge.ts'
import { emptyMap, parseYaml, type Flaw, type Tree } from './tree.ts'

export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
}

/** The message says what could not be read or expanded, and why. */
export class Unreadable extends Error {
  override name = 'Unreadable'
}

const ENV_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/

/** Splits `scheme:rest`. One letter is a drive, not a scheme, and `NAME:-default` belongs to env. */
export function splitUri(uri: string, otherwise: 'env' | 'file'): { scheme: string; opaque: string } {
  const [, scheme, opaque] = /^([A-Za-z][A-Za-z0-9+.-]+):(?!-)(.*)$/s.exec(uri) ?? []
  return scheme === undefined ? { scheme: otherwise, opaque: uri } : { scheme, opaque: opaque! }
}

/** Reads one `--config`. `unset` hears of an environment variable that is not there. */
export function readSource(source: string, surroundings: Surroundings, unset: (name: string) => void): { tree: Tree; flaws: Flaw[] } {
  const { scheme, opaque } = splitUri(source, 'file')
  switch (scheme) {
    case 'file':
      return parseYaml(readFile(opaque, surroundings), opaque)
    case 'env':
      return parseYaml(readEnv(opaque, surroundings) ?? (unset(opaque), ''), source)
    case 'yaml':
      return readInline(opaque)
    default:
      throw unsupported(scheme, source)
  }
}

/** @returns undefined where the variable is not set */
export function readEnv(name: string, { env }: Surroundings): string | undefined {
  if (!ENV_NAME.test(name)) throw new Unreadable(`environment variable "${name}" has invalid name: must match regex ${ENV_NAME.source}`)
  return env[name]
}

/** Without the one line feed that editors put at the end of a file. */
export function readFile(path: string, { cwd }: Surroundings): string {
  try {
    return readFileSync(resolve(cwd, path), 'utf8').replace(/\r?\n$/, '')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw new Unreadable(`unable to read the file ${path}: ${code === 'ENOENT' ? 'no such file or directory' : message}`, { cause: error })
  }
}

export const unsetVariable = (name: string) => `configuration references unset environment variable "${name}"`

export function unsupported(scheme: string, uri: string): Unreadable {
  return new Unreadable(`scheme "${scheme}" is not supported for uri "${uri}" (supported: env, file, yaml)`)
}

/** `a::b: 1` is the map {a: {b: 1}}. */
function readInline(text: string): { tree: Tree; flaws: Flaw[] } {
  const { tree, flaws } = parseYaml(text)
  if (tree.kind !== 'map') return { tree, flaws }
  const nested = [...tree.entries].map(([key, { value }]) =>
    key.split('::').reduceRight<Tree>((inner, step) => ({ kind: 'map', entries: new Map([[step, { value: inner }]]) }), value),
  )
  return { tree: nested.reduce((a, b) => merge(a, b), emptyMap), flaws }
}
