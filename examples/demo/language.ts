// The policy's language: a tokenizer whose tokens are words, single digits and the two ends of a tool call, and a chat template. Hugging Face's
// files, so that any tool reads them.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { NO_OPERATOR } from './calculator.ts'
import { WORDS } from './problems.ts'

const SPECIAL = ['<pad>', '<|end|>', '<|user|>', '<|assistant|>', '<|tool|>', '<unk>']
/** One token each: all that a call of the calculator has beside its expression. */
const CALL = ['<tool_call>\n{"name": "calculator", "arguments": {"expression": "', '"}}\n</tool_call>']
const SYMBOLS = [...'+-*.?:']

const VOCABULARY = [...new Set([...SPECIAL, ...CALL, ...'0123456789', ...SYMBOLS, ...NO_OPERATOR.match(/\w+/g)!, ...WORDS])]

export const vocab_size = VOCABULARY.length
export const END = idOf('<|end|>')
export const PAD = idOf('<pad>')

function idOf(token: string): number {
  return VOCABULARY.indexOf(token)
}

export function writeLanguage(folder: string): void {
  const write = (file: string, content: object) => writeFileSync(join(folder, file), `${JSON.stringify(content, null, 1)}\n`)
  write('tokenizer.json', tokenizer)
  write('tokenizer_config.json', {
    tokenizer_class: 'PreTrainedTokenizerFast',
    eos_token: '<|end|>',
    pad_token: '<pad>',
    unk_token: '<unk>',
  })
  writeFileSync(join(folder, 'chat_template.jinja'), CHAT_TEMPLATE)
}

const added = (content: string, special: boolean) => ({
  ...{ id: idOf(content), content, special },
  ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
})

const tokenizer = {
  version: '1.0',
  truncation: null,
  padding: null,
  added_tokens: [...SPECIAL.map((token) => added(token, true)), ...CALL.map((token) => added(token, false))],
  normalizer: null,
  pre_tokenizer: {
    type: 'Sequence',
    pretokenizers: [
      { type: 'WhitespaceSplit' },
      { type: 'Digits', individual_digits: true },
      { type: 'Punctuation', behavior: 'Isolated' },
    ],
  },
  post_processor: null,
  // Nothing is put between tokens: an answer is digits, a call is what its tokens say.
  decoder: { type: 'Fuse' },
  // WordPiece without pieces: a word is in the vocabulary or unknown.
  model: {
    type: 'WordPiece',
    unk_token: '<unk>',
    continuing_subword_prefix: '##',
    max_input_chars_per_word: 100,
    vocab: Object.fromEntries(VOCABULARY.map((token, id) => [token, id])),
  },
}

/** What the policy wrote comes back letter by letter: turns extend each other, and training learns a conversation from one row. */
const CHAT_TEMPLATE = `{%- for message in messages -%}
{%- if message.role != 'system' -%}
{{- '<|' + message.role + '|>' -}}
{{- message.content or '' -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson -}}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{%- if message.role == 'assistant' -%}{{- '<|end|>' -}}{%- endif -%}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}
`
