// Items read from their bytes for those who will look at them. Most spans are nobody's: of one that no dialect has anything to say of, only
// that is read which is asked of every span, and where it has nothing of that either it stays bytes.

import type { Dialect } from './dialect.ts'
import { KEPT_KEYS } from './items.ts'
import { readLog, readSpan } from './read.ts'
import { remembered } from './remembered.ts'
import { FACT_KEYS } from './routing.ts'
import { extentReader } from './signs.ts'
import type { Item } from './span.ts'
import type { RawItem } from './span_batch.ts'
import { SESSION_KEYS } from './values.ts'

/** Most of what a model call says: contentOf() of genai.ts reads it from its bytes. */
const MESSAGE_KEYS = new Set(['gen_ai.system_instructions', 'gen_ai.input.messages', 'gen_ai.output.messages'])

/** A span of which nobody wants to know more than where it stands. */
export type Stranger = RawItem & { readonly signal: 'traces' }

export type ItemReader = (raw: RawItem) => Item | Stranger

/**
 * As it was made for these before: what it has learnt of keys and names is worth keeping.
 * @param joinKeys attributes by which a reward may name the rollout
 */
export function itemReader(dialects: readonly Dialect[], joinKeys: readonly string[] = []): ItemReader {
  let readers = known.get(dialects)
  if (!readers) known.set(dialects, (readers = remembered((keys: string) => readerFor(dialects, JSON.parse(keys) as string[]))))
  return readers(JSON.stringify(joinKeys))
}

const known = new WeakMap<readonly Dialect[], (joinKeys: string) => ItemReader>()

function readerFor(dialects: readonly Dialect[], joinKeys: readonly string[]): ItemReader {
  const asked = new Set([...KEPT_KEYS, ...SESSION_KEYS, ...FACT_KEYS, ...joinKeys])
  const extentOf = extentReader(dialects, asked)
  return (raw) => {
    if (!isSpan(raw)) return read(raw, undefined)
    const extent = extentOf(raw.payload, raw.scope.name)
    return extent === 'none' ? raw : read(raw, extent === 'all' ? undefined : asked)
  }
}

const isSpan = (raw: RawItem): raw is Stranger => raw.signal === 'traces'

/** Of spans, only the attributes of these keys. */
export const keysReader =
  (keys: ReadonlySet<string>): ((raw: RawItem) => Item) =>
  (raw) =>
    read(raw, keys)

const read = ({ signal, payload, resource, scope }: RawItem, only: ReadonlySet<string> | undefined): Item =>
  signal === 'logs' ? readLog(payload, resource, scope) : readSpan(payload, resource, scope, { only, inBytes: MESSAGE_KEYS })
