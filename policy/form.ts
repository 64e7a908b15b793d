// Answers that are held to a form: at each place the tokens are found with which the text can still become one of the form.

import { FormFailed, type Form, type FormPart } from './decoding.ts'
import { BLANK } from './json_text.ts'
import { choice, literal, openGrammar, repeat, sequence, type Grammar, type Node, type State } from './grammar.ts'
import { schemaNode } from './json_schema.ts'
import type { Tokenizer } from './tokenizer.ts'

/** Holds one answer to its form. */
export interface Held {
  /** Bits of the tokens that may be drawn now, 32 in a word. */
  allowed(): Uint32Array
  take(id: number): void
  /** Nothing can follow any more, not even a token that ends it. */
  ended(): boolean
}

/** Forms of a tokenizer that are kept, the one used last at the end. */
const MAX_KEPT = 16

function formNode({ texts, several, most }: Form): Node {
  return choice(...texts.map(textNode), repeat(choice(...several.map(textNode)), 1, most))
}

const textNode = (parts: readonly FormPart[]): Node =>
  sequence(...parts.flatMap((part) => [BLANK, typeof part === 'string' ? literal(part) : schemaNode(part.schema, part.exact)]))

/** What of a form does not depend on the answer. */
interface Opened {
  readonly grammar: Grammar
  readonly masks: WeakMap<State, Uint32Array>
  readonly spelled: ReadonlySet<string>
}

/** Opens the forms of answers in the words of a tokenizer. */
export function openForms(tokenizer: Tokenizer): (form: Form) => Held {
  const opened = new Map<string, Opened>()
  let words: Words | undefined

  function open(form: Form): Opened {
    const key = JSON.stringify(form)
    const spelled = new Set([...form.texts, ...form.several].flat().filter((part) => typeof part === 'string'))
    const found = opened.get(key) ?? { grammar: openGrammar(formNode(form)), masks: new WeakMap(), spelled }
    opened.delete(key)
    opened.set(key, found)
    if (opened.size > MAX_KEPT) opened.delete(opened.keys().next().value!)
    return found
  }

  return (form) => {
    words ??= wordsOf(tokenizer)
    const { grammar, masks, spelled } = open(form)
    const known = words
    let state = grammar.start
    const maskOf = (): Uint32Array => {
      let mask = masks.get(state)
      if (!mask) masks.set(state, (mask = allowedAt(state, grammar, known, spelled, tokenizer.eos_ids)))
      return mask
    }
    return {
      allowed() {
        const mask = maskOf()
        if (mask.every((bits) => bits === 0)) throw new FormFailed('the policy has no tokens to go on with in the form that was asked for')
        return mask
      },
      take(id) {
        for (const byte of known.bytes[id]!) state = grammar.move(state, byte)!
      },
      ended: () => state.complete && maskOf().every((bits) => bits === 0),
    }
  }
}

interface Words {
  /** What each token adds to a text that has begun; none for those that add nothing. */
  readonly bytes: readonly Uint8Array[]
  readonly special: ReadonlyMap<number, string>
  /** Ids in the order of their bytes, and how many bytes each has in common with the one before. */
  readonly order: readonly number[]
  readonly shared: readonly number[]
}

function wordsOf(tokenizer: Tokenizer): Words {
  const bytes = Array.from({ length: tokenizer.vocab_size }, (_, id) => tokenizer.bytes(id))
  const order = [...bytes.keys()].filter((id) => bytes[id]!.length > 0).sort((a, b) => Buffer.compare(bytes[a]!, bytes[b]!))
  const shared = order.map((id, i) => (i === 0 ? 0 : inCommon(bytes[order[i - 1]!]!, bytes[id]!)))
  return { bytes, order, shared, special: tokenizer.special }
}

function inCommon(a: Uint8Array, b: Uint8Array): number {
  let length = 0
  while (length < a.length && a[length] === b[length]) length++
  return length
}

/** One walk over all tokens, as over a tree: where one fails, those that begin with the same bytes are passed over. */
function allowedAt(
  state: State,
  grammar: Grammar,
  { bytes, order, shared, special }: Words,
  spelled: ReadonlySet<string>,
  eos: readonly number[],
) {
  const mask = new Uint32Array(Math.ceil(bytes.length / 32))
  const path: State[] = [state]
  let read = 0
  for (let i = 0; i < order.length; i++) {
    if (shared[i]! > read) continue
    const id = order[i]!
    const word = bytes[id]!
    for (read = shared[i]!; read < word.length; read++) {
      const next = grammar.move(path[read]!, word[read]!)
      if (!next) break
      path[read + 1] = next
    }
    if (read === word.length) mask[id >>> 5]! |= 1 << (id & 31)
  }
  // What structures a conversation is no text that an answer could quote.
  for (const [id, text] of special) if (!spelled.has(text)) mask[id >>> 5]! &= ~(1 << (id & 31))
  if (state.complete) for (const id of eos) mask[id >>> 5]! |= 1 << (id & 31)
  return mask
}
