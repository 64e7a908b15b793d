// The latest requests, as bytes in one ring, and where the items stand in them: to keep an item costs no copy and no object of its own. Each
// points back at the one before it that belongs to the same chain, so a chain is two numbers. What is written over is gone, and with it
// every chain that began there.

import { payloadSize, payloadStart, resource, scope, type Envelope, type RawItem, type SpanBatch } from './span_batch.ts'

/** Bytes written before its first request, and before its last item. */
export interface Chain {
  since: number
  last: number
}

export interface SpanRing {
  /** An empty chain. */
  begin(): Chain
  /** Adds items (indices into the batch) to the end of a chain. A batch is copied when the first of its items is added. False: the chain is gone, or the batch does not fit. */
  add(chain: Chain, batch: SpanBatch, indices: readonly number[]): boolean
  /** A chain's items, in memory of their own, in the order in which they came; null when it is gone. */
  read(chain: Chain): RawItem[] | null
}

/** Words of each item: how far back its predecessor is (0: it has none), how far on its payload, its size, resource, and scope and signal. */
const WORDS = 5
const ITEM = 4 * WORDS
const ENVELOPES = 4_096
/** No larger Buffer, and no distance that does not fit a word. */
const MOST = 2 ** 31 - 4

export function spanRing(size: number): SpanRing {
  const capacity = Math.min(size, MOST) & ~3
  const bytes = Buffer.allocUnsafeSlow(capacity)
  const words = new Uint32Array(bytes.buffer)
  /** Everything written so far: where the next item goes, modulo the capacity. */
  let end = 0
  /** Chains that began before are gone. */
  let forgotten = 0

  // Envelopes repeat from request to request; one copy serves all, and no request is kept alive by it.
  const envelopes: Envelope[] = []
  const known = new Map<string, number>()
  let places = new WeakMap<Envelope, number>()
  let envelopeBytes = 0

  /** Neighbours mostly share them. */
  let lastResource: Envelope | undefined
  let lastScope: Envelope | undefined
  let resourcePlace = 0
  let scopePlace = 0

  function place(envelope: Envelope): number {
    return places.get(envelope) ?? placed(envelope)
  }

  function placed(envelope: Envelope): number {
    const id = `${envelope.bytes.toString('latin1')}\u0000${envelope.schema_url}`
    let index = known.get(id)
    if (index === undefined) {
      if (envelopes.length === ENVELOPES || envelopeBytes > capacity) forget()
      index = envelopes.push({ ...envelope, bytes: Buffer.from(envelope.bytes) }) - 1
      known.set(id, index)
      envelopeBytes += envelope.bytes.length
    }
    places.set(envelope, index)
    return index
  }

  function forget(): void {
    envelopes.length = envelopeBytes = 0
    known.clear()
    places = new WeakMap()
    lastResource = lastScope = undefined
    forgotten = end + 1
  }

  const lives = ({ since }: Chain) => since >= forgotten && end - since <= capacity

  /** Where so many bytes in one piece begin. */
  function room(size: number): number {
    const left = capacity - (end % capacity)
    if (size > left) end += left
    const start = end
    end += (size + 3) & ~3
    return start
  }

  /** Where the items of the batch that came last begin, and their bytes. */
  let latest: SpanBatch | undefined
  let itemsAt = 0
  let bodyAt = 0

  /** Copies the batch, unless it is here and the chain, whose items follow each other, has none of it. */
  function hold(batch: SpanBatch, { last }: Chain): boolean {
    if (batch === latest && last < itemsAt && end - itemsAt <= capacity) return true
    const head = ITEM * batch.count
    if (head + batch.body.length > capacity) return false
    itemsAt = room(head + batch.body.length)
    bodyAt = (itemsAt % capacity) + head
    batch.body.copy(bytes, bodyAt)
    latest = batch
    return true
  }

  function add(chain: Chain, batch: SpanBatch, indices: readonly number[]): boolean {
    const logs = batch.signal === 'logs' ? 1 : 0
    if (!lives(chain) || !hold(batch, chain)) return false
    chain.since = Math.min(chain.since, itemsAt)
    for (const i of indices) {
      const itsResource = resource(batch, i)
      const itsScope = scope(batch, i)
      if (itsResource !== lastResource) resourcePlace = place((lastResource = itsResource))
      if (itsScope !== lastScope) scopePlace = place((lastScope = itsScope))
      const position = itemsAt + ITEM * i
      const at = position % capacity
      const word = at >>> 2
      words[word] = chain.last < 0 ? 0 : position - chain.last
      words[word + 1] = bodyAt + payloadStart(batch, i) - at
      words[word + 2] = payloadSize(batch, i)
      words[word + 3] = resourcePlace
      words[word + 4] = 2 * scopePlace + logs
      chain.last = position
    }
    return lives(chain)
  }

  function read(chain: Chain): RawItem[] | null {
    if (!lives(chain)) return null
    if (chain.last === NONE) return []
    const items: RawItem[] = []
    for (let position = chain.last, back = 1; back > 0; position -= back) {
      const at = position % capacity
      const [distance, on, size, resourceAt, scopeAndSignal] = words.subarray(at >>> 2) as unknown as [
        number,
        number,
        number,
        number,
        number,
      ]
      items.push({
        signal: scopeAndSignal & 1 ? 'logs' : 'traces',
        payload: Buffer.from(bytes.subarray(at + on, at + on + size)),
        resource: envelopes[resourceAt]!,
        scope: envelopes[scopeAndSignal >>> 1]!,
      })
      back = distance
    }
    return items.reverse()
  }

  return { begin: () => ({ since: end, last: NONE }), add, read }
}

const NONE = -1
