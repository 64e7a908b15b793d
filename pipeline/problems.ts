// What is wrong with a configuration, and what is merely worth a word, each with its place.

import type { Place } from './tree.ts'

export interface ConfigProblem {
  /** Of the option, joined by `::`; empty where a whole source is meant. */
  readonly path: string
  readonly message: string
  /** Missing for what a command line flag gave, and for what is not written anywhere. */
  readonly at?: Place | undefined
}

/** Takes note of a problem or a warning. */
export type Note = (path: readonly string[], message: string, at?: Place) => void

export interface Notes {
  readonly problem: Note
  readonly warning: Note
}

export const noteIn =
  (list: ConfigProblem[]): Note =>
  (path, message, at) =>
    void list.push({ path: path.join('::'), message, at })

/** One line each, e.g. `pipeline.yaml:5:42  processors::air::mode: must be …`. */
export function formatProblems(problems: readonly ConfigProblem[]): string[] {
  const places = problems.map(({ at }) => (at ? `${at.file}:${at.line}:${at.column}  ` : ''))
  const width = Math.max(0, ...places.map((place) => place.length))
  return problems.map(({ path, message }, i) => `${places[i]!.padEnd(width)}${path && `${path}: `}${message}`)
}

/** Sorted by file, in the order in which the files were named, then by place; each said once. */
export function inOrder(problems: readonly ConfigProblem[], files: readonly string[]): ConfigProblem[] {
  const unique = new Map(problems.map((problem) => [JSON.stringify(problem), problem]))
  return [...unique.values()].sort((a, b) => rank(a) - rank(b) || line(a) - line(b) || column(a) - column(b))

  function rank({ at }: ConfigProblem): number {
    if (!at) return files.length + 1
    return files.includes(at.file) ? files.indexOf(at.file) : files.length
  }
}

const line = ({ at }: ConfigProblem) => at?.line ?? 0
const column = ({ at }: ConfigProblem) => at?.column ?? 0
