// The items of an OTLP/JSON document, which may hold spans, log records or both, or of a file with one such document a line.

import { documentsIn } from './json_lines.ts'
import { fromJson } from './otlp_json.ts'
import { parseJson } from './parse_json.ts'
import { readItem, scan } from './scan.ts'
import type { Item } from './span.ts'
import { Malformed } from './wire.ts'

/** @returns the items that could be accepted, and why others could not. Throws Malformed where the text is no such document. */
export function readDocument(text: string): { items: Item[]; rejected: readonly string[] } {
  let document: unknown
  try {
    document = parseJson(text)
  } catch (error) {
    return itemsOfLines(Buffer.from(`${text}\n`), error)
  }
  return itemsOf(document)
}

type Found = ReturnType<typeof readDocument>

function itemsOf(document: unknown): Found {
  const scanned = (['traces', 'logs'] as const).map((signal) => scan(signal, fromJson(signal, document)))
  return {
    items: scanned.flatMap(({ batch }) => Array.from({ length: batch.count }, (_, i) => readItem(batch, i))),
    rejected: scanned.flatMap(({ rejected }) => rejected.map(({ reason }) => reason)),
  }
}

/** A bad line costs that line. Throws `error` where none is good. */
function itemsOfLines(bytes: Buffer, error: unknown): Found {
  const { documents, problems } = documentsIn({ offset: 0, bytes, last: true, full: true })
  if (documents.length === 0) throw error
  const lineAt = lineCounter(bytes)
  const found = [...documents, ...problems].sort((a, b) => a.at - b.at).map((one) => itemsOfLine(one, lineAt(one.at)))
  return { items: found.flatMap(({ items }) => items), rejected: found.flatMap(({ rejected }) => rejected) }
}

function itemsOfLine(one: { document: object } | { problem: string }, line: number): Found {
  const bad = (problem: string) => ({ items: [], rejected: [`line ${line}: ${problem}`] })
  if ('problem' in one) return bad(one.problem)
  try {
    return itemsOf(one.document)
  } catch (error) {
    if (error instanceof Malformed) return bad(error.message)
    throw error
  }
}

/** The line in which a byte stands, of bytes that are asked for in their order. */
function lineCounter(bytes: Buffer): (at: number) => number {
  let line = 1
  let next = bytes.indexOf(NEWLINE)
  return (at) => {
    for (; next >= 0 && next < at; next = bytes.indexOf(NEWLINE, next + 1)) line++
    return line
  }
}
const NEWLINE = 10
