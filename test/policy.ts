// Small policies for tests: random weights, whose words make no sense and are always the same; a tokenizer made of a list of words.

import { mkdirSync, writeFileSync } from 'node:fs'
import { cp, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

import { initCheckpoint } from '../policy/checkpoint.ts'

const TOKENIZER = fileURLToPath(new URL('fixtures/policy/tokenizer/', import.meta.url))
/** `<|im_end|>` */
const END = 2

export async function makePolicy(folder: string, { seed = 1, context = 512 } = {}): Promise<string> {
  await mkdir(folder, { recursive: true })
  for (const file of ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']) await cp(join(TOKENIZER, file), join(folder, file))
  const model = { vocab_size: 420, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2, num_attention_heads: 4 }
  initCheckpoint(folder, { ...model, max_position_embeddings: context, eos_token_id: END }, seed)
  return folder
}

/** Ids are places in [unk, eos, ...words]. Text is split at spaces and punctuation, as the pre-tokenizer `Whitespace` does. */
export function wordLevelFolder(folder: string, words: readonly string[], config: object = {}, unk_token: string | null = '<unk>'): string {
  const special = [...(unk_token === null ? [] : [unk_token]), '<eos>']
  const added_tokens = special.map((content, id) => ({
    ...{ id, content, special: true },
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
  }))
  const vocab = Object.fromEntries([...special, ...words].map((word, id) => [word, id]))
  const definition = {
    version: '1.0',
    added_tokens,
    normalizer: null,
    pre_tokenizer: { type: 'Whitespace' },
    post_processor: null,
    decoder: null,
    model: { type: 'WordLevel', vocab, unk_token },
  }
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(definition))
  writeFileSync(join(folder, 'tokenizer_config.json'), JSON.stringify({ eos_token: '<eos>', ...config }))
  return folder
}

/** A policy of such words, with random weights. */
export function wordLevelPolicy(folder: string, words: readonly string[]): string {
  wordLevelFolder(folder, words, { chat_template: '{{ messages[0].content }}' })
  const size = { vocab_size: words.length + 2, hidden_size: 8, intermediate_size: 8, num_hidden_layers: 1, num_attention_heads: 1 }
  initCheckpoint(folder, { ...size, max_position_embeddings: 64, eos_token_id: 1 }, 1)
  return folder
}
