// Which blocks of the key-value cache hold which tokens. A prompt that begins as an earlier sequence did takes over its full blocks: agents send their
// whole conversation anew at each turn. A block that nobody uses stays until its place is needed, the longest unused one first (after vLLM's PagedAttention).

/** Tokens per block: a power of two. */
export const BLOCK_BITS = 4
export const BLOCK = 1 << BLOCK_BITS

export interface Sequence {
  /** Block of the tokens i * BLOCK to (i + 1) * BLOCK - 1. */
  readonly blocks: number[]
  /** Tokens whose keys and values are in the cache. */
  readonly tokens: number[]
  /** Of `tokens`, those that were there already. */
  readonly reused: number
}

export interface KvCache {
  /** Takes room for `prompt` and what may follow, `most` tokens in all; null when there is not enough now. Throws when there never is. */
  open(prompt: readonly number[], most: number): Sequence | null
  /** Makes sure that `sequence` has a block for its next `count` tokens. */
  extend(sequence: Sequence, count: number): void
  /** Tells that the keys and values of these tokens, the sequence's next ones, have been written. */
  written(sequence: Sequence, tokens: readonly number[]): void
  close(sequence: Sequence): void
}

interface Held extends Sequence {
  /** Blocks that it may yet ask for. */
  promised: number
  /** Content id of its last full block; 0 where it has none. */
  content: number
}

export function openKvCache(capacity: number): KvCache {
  const users = new Int32Array(capacity)
  const blank = Array.from({ length: capacity }, (_, i) => capacity - 1 - i)
  /** Blocks with content that nobody uses, the longest unused first. */
  const idle = new Set<number>()
  /** What a full block holds: its tokens, after the content of the block before it. Content ids are never used twice, blocks are. */
  const byKey = new Map<string, { readonly block: number; readonly content: number }>()
  const keys = new Map<number, string>()
  const held = new Map<Sequence, Held>()
  let promised = 0
  let contents = 0

  const keyOf = (content: number, tokens: readonly number[], from: number) => `${content}:${tokens.slice(from, from + BLOCK).join()}`

  function take(): number {
    const fresh = blank.pop()
    if (fresh !== undefined) return fresh
    const [oldest] = idle
    idle.delete(oldest!)
    byKey.delete(keys.get(oldest!)!)
    keys.delete(oldest!)
    return oldest!
  }

  return {
    open(prompt, most) {
      const needed = Math.ceil(most / BLOCK)
      if (needed > capacity) throw new Error(`${most} tokens do not fit into the key-value cache of ${capacity * BLOCK}`)
      const found: number[] = []
      let content = 0
      // The last token is always computed: its logits are what is asked for.
      for (let from = 0; from + BLOCK < prompt.length; from += BLOCK) {
        const hit = byKey.get(keyOf(content, prompt, from))
        if (!hit) break
        found.push(hit.block)
        content = hit.content
      }
      const reclaimed = found.filter((block) => users[block] === 0).length
      if (blank.length + idle.size - reclaimed - promised < needed - found.length) return null
      for (const block of found) {
        idle.delete(block)
        users[block]!++
      }
      const reused = found.length * BLOCK
      const sequence: Held = { blocks: found, tokens: prompt.slice(0, reused), reused, promised: needed - found.length, content }
      promised += sequence.promised
      held.set(sequence, sequence)
      return sequence
    },
    extend(sequence, count) {
      const own = held.get(sequence)!
      while (own.blocks.length * BLOCK < own.tokens.length + count) {
        const block = take()
        users[block] = 1
        own.blocks.push(block)
        own.promised--
        promised--
      }
    },
    written(sequence, tokens) {
      const own = held.get(sequence)!
      for (const token of tokens) {
        own.tokens.push(token)
        if (own.tokens.length % BLOCK !== 0) continue
        const key = keyOf(own.content, own.tokens, own.tokens.length - BLOCK)
        const block = own.blocks[own.tokens.length / BLOCK - 1]!
        // Another sequence may have written the same by now; its block is the one that is found.
        const known = byKey.get(key) ?? { block, content: ++contents }
        if (known.block === block) {
          byKey.set(key, known)
          keys.set(block, key)
        }
        own.content = known.content
      }
    },
    close(sequence) {
      const own = held.get(sequence)
      if (!own) return
      held.delete(sequence)
      promised -= own.promised
      // The end of a conversation is given up before its beginning, which more of them share.
      for (const block of own.blocks.toReversed()) {
        if (--users[block]! > 0) continue
        if (keys.has(block)) idle.add(block)
        else blank.push(block)
      }
    },
  }
}
