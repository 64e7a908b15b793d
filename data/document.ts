// The items of an OTLP/JSON document, which may hold spans, log records or both, or of a file with one such document a line.

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
    if (!isJson(text.slice(0, text.indexOf('\n')))) throw error
    const found = text.split('\n').flatMap((line, i) => (line.trim() === '' ? [] : itemsOfLine(line, i + 1)))
    return { items: found.flatMap(({ items }) => items), rejected: found.flatMap(({ rejected }) => rejected) }
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

/** A bad line costs that line. */
function itemsOfLine(line: string, number: number): Found {
  try {
    return itemsOf(parseJson(line))
  } catch (error) {
    if (error instanceof Malformed) return { items: [], rejected: [`line ${number}: ${error.message}`] }
    throw error
  }
}

function isJson(text: string): boolean {
  try {
    parseJson(text)
    return true
  } catch {
    return false
  }
}
