// Folders of tiny policies for tests: a word-level tokenizer made of a list of words.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

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
