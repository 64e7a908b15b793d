// Text to token ids and back, from the tokenizer.json of a Hugging Face folder. TensorFlow is not loaded here: the endpoint's main
// thread counts and renders prompts with it. Left out: pairs of texts, truncation and padding, which a decoder has no use for.

import { join } from 'node:path'

import { chatTemplate, type ChatMessage, type ChatOptions } from './chat_template.ts'
import { naming, readJson, tokenText, type Json } from './hugging_face.ts'

export interface Tokenizer {
  /** Ids run from 0 to below this. The model may have more rows: padding, which no text leads to. */
  readonly vocab_size: number
  /** Tokens that end an answer, by generation_config.json, config.json and tokenizer_config.json. */
  readonly eos_ids: readonly number[]
  /** With the tokens that the post-processor puts around a text (a `<s>` in front of it, for some models). */
  encode(text: string): number[]
  /** Special tokens are kept. An id beyond the vocabulary adds nothing. */
  decode(ids: readonly number[]): string
  /** What the token adds to a text that has begun; nothing where it is none. It may be a part of a character. */
  bytes(id: number): Uint8Array
  /** Texts of the tokens that structure a conversation, by id. */
  readonly special: ReadonlyMap<number, string>
  stream(): TextStream
  /** Renders the chat template and encodes it. Throws where the folder has no template, or the template refuses the messages. */
  chat(messages: readonly ChatMessage[], options: ChatOptions): { readonly text: string; readonly ids: number[] }
  /** Words outside of the vocabulary met so far; each became the unknown token, so the policy cannot see what it was. */
  unknown(): number
}

/** Text of tokens as they come. What `push` and `end` gave, joined, is what `decode` gives for all of them. */
export interface TextStream {
  /** '' while the token holds only a part of a character. */
  push(id: number): string
  /** What was held back; characters that were never completed are U+FFFD. */
  end(): string
}

/** Rejects, naming the file, when the folder has no tokenizer.json or one that cannot be read. */
export async function openTokenizer(folder: string): Promise<Tokenizer> {
  const file = join(folder, 'tokenizer.json')
  const definition = readJson(file)
  if (!definition) throw new Error(`${file}: not found; a policy's folder holds its tokenizer`)
  const config = readJson(join(folder, 'tokenizer_config.json')) ?? {}
  const { Tokenizer: Library, Template } = await libraries()
  const inner = naming(file, () => new Library(definition, { ...config, unk_token: unknownToken(definition, config) }))
  const { model } = inner
  if (!model) throw new Error(`${file}: has no model`)

  const vocab = model.vocab as readonly (string | undefined)[]
  const unk = unknownId(definition, config, inner)
  const render = chatTemplate(folder, config, Template)
  let unknown = 0

  const encode = (text: string, add_special_tokens: boolean): number[] => {
    if (text === '') return add_special_tokens ? inner.encode(text).ids : []
    // A word-level model without an unknown token gives undefined.
    const ids = inner.encode(text, { add_special_tokens }).ids as (number | undefined)[]
    const missing = ids.indexOf(undefined)
    if (missing >= 0) throw new Error(`${file}: has no token for "${inner.tokenize(text)[missing]}", and no unk_token`)
    if (unk !== undefined) for (const id of ids) if (id === unk) unknown++
    return ids as number[]
  }
  const decode = (ids: readonly number[]): string => {
    const known = ids.filter((id) => vocab[id] !== undefined)
    return known.length === 0 ? '' : inner.decode(known, { clean_up_tokenization_spaces: false })
  }

  return {
    vocab_size: vocab.length,
    eos_ids: eosIds(folder, config, (token) => inner.token_to_id(token)),
    encode: (text) => encode(text, true),
    decode,
    bytes: tokenBytes(definition, vocab, decode),
    special: new Map(addedTo(definition).flatMap(({ id, content, special }) => (special ? [[id, content]] : []))),
    stream: () => textStream(decode),
    chat(messages, options) {
      const text = render(messages, options)
      return { text, ids: encode(text, false) }
    },
    unknown: () => unknown,
  }
}

interface AddedToken {
  readonly id: number
  readonly content: string
  readonly special: boolean
}

const addedTo = (definition: Json): readonly AddedToken[] => (definition.added_tokens ?? []) as AddedToken[]

/** Byte-level tokens are spelled in characters that stand for one byte each; what others add is asked of the decoder, which may put a space in between. */
function tokenBytes(definition: Json, vocab: readonly (string | undefined)[], decode: (ids: readonly number[]) => string) {
  const added = new Set(addedTo(definition).map(({ id }) => id))
  const isByteLevel = JSON.stringify(definition.decoder ?? null).includes('"ByteLevel"')
  const before = vocab.findIndex((token, id) => token !== undefined && /^[a-z0-9]+$/i.test(decode([id])))
  const begun = before < 0 ? [] : [before]
  const from = decode(begun).length
  return (id: number): Uint8Array => {
    const token = vocab[id]
    if (token === undefined) return new Uint8Array()
    if (isByteLevel && !added.has(id)) return Uint8Array.from(token, (character) => BYTE_OF.get(character) ?? 0)
    const [, hex] = /^<0x([0-9A-F]{2})>$/.exec(token) ?? []
    return hex === undefined ? Buffer.from(decode([...begun, id]).slice(from)) : Uint8Array.of(parseInt(hex, 16))
  }
}

/** GPT-2's: printable bytes are themselves, the others the characters from U+0100 on. */
const BYTE_OF: ReadonlyMap<string, number> = (() => {
  let others = 0x100
  const isPrintable = (byte: number) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad)
  return new Map(Array.from({ length: 256 }, (_, byte) => [String.fromCodePoint(isPrintable(byte) ? byte : others++), byte]))
})()

/** Decodes a window that begins with tokens already shown, since what a token adds may depend on the one before it (a space, a byte). */
function textStream(decode: (ids: readonly number[]) => string): TextStream {
  let window: number[] = []
  /** Tokens at the window's beginning that are its context, and how much of the window's text has been given out. */
  let context = 0
  let shown = 0
  const give = (text: string, end: number): string => {
    const fresh = text.slice(shown, end)
    shown = Math.max(shown, end)
    return fresh
  }
  return {
    push(id) {
      window.push(id)
      const text = decode(window)
      // Bytes that may still become a character decode to one U+FFFD at the very end; all before it is settled.
      if (text.endsWith('\uFFFD')) return give(text, text.length - 1)
      const fresh = give(text, text.length)
      window = window.slice(context)
      context = window.length
      shown = decode(window).length
      return fresh
    },
    end() {
      const text = decode(window)
      return give(text, text.length)
    },
  }
}

async function libraries() {
  try {
    const [{ Tokenizer }, { Template }] = await Promise.all([import('@huggingface/tokenizers'), import('@huggingface/jinja')])
    return { Tokenizer, Template }
  } catch {
    throw new Error('a policy needs two packages: `npm install @huggingface/tokenizers @huggingface/jinja`')
  }
}

/** Word-level models name it themselves; the library looks for it in the configuration. */
const unknownToken = (definition: Json, config: Json): string | undefined =>
  tokenText(definition.model?.unk_token) ?? tokenText(config.unk_token)

function unknownId(definition: Json, config: Json, inner: { token_to_id(token: string): number | undefined }): number | undefined {
  const token = unknownToken(definition, config)
  return token === undefined ? undefined : inner.token_to_id(token)
}

function eosIds(folder: string, config: Json, idOf: (token: string) => number | undefined): number[] {
  const ids = ['generation_config.json', 'config.json'].flatMap((name) => readJson(join(folder, name))?.eos_token_id ?? [])
  const named = tokenText(config.eos_token)
  return [...new Set<number>([...ids, ...(named === undefined ? [] : [idOf(named) ?? []].flat())])].filter(Number.isInteger)
}
