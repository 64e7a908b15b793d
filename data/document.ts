// The items of an OTLP/JSON document, which may hold spans, log records or both.

import { fromJson } from './otlp_json.ts'
import { parseJson } from './parse_json.ts'
import { readItem, scan } from './scan.ts'
import type { Item } from './span.ts'

/** @returns the items that could be accepted, and why others could not. Throws Malformed where the text is no such document. */
export function readDocument(text: string): { items: Item[]; rejected: readonly string[] } {
  const document = parseJson(text)
  const scanned = (['traces', 'logs'] as const).map((signal) => scan(signal, fromJson(signal, document)))
  return {
    items: scanned.flatMap(({ batch }) => Array.from({ length: batch.count }, (_, i) => readItem(batch, i))),
    rejected: scanned.flatMap(({ rejected }) => rejected.map(({ reason }) => reason)),
  }
}
