// The language of a small base policy, as the files that Hugging Face tools read: a tokenizer whose tokens are whole words, and a chat template.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Language {
  /** Every word that a prompt or an answer may hold. */
  readonly words: readonly string[]
  /** Tools that the policy may call, each with its only argument: what stands around it in a call is one token at each side. */
  readonly tools: readonly { readonly name: string; readonly argument: string }[]
  /** Whether numbers are spelled digit by digit. */
  readonly digits: boolean
}

const SPECIAL = ['<pad>', '<|end|>', '<|system|>', '<|user|>', '<|assistant|>', '<|tool|>', '<unk>']
export const END = SPECIAL.indexOf('<|end|>')

const opening = (name: string, argument: string) => `<tool_call> {"name": "${name}", "arguments": {"${argument}": "`
const CLOSING = '"}} </tool_call>'

/** A call in Hermes form, as the policy writes it and as the template renders it when the agent sends it back. */
export const toolCall = (name: string, argument: string, value: string): string => `${opening(name, argument)} ${value} ${CLOSING}`

/** Turns extend each other token by token, so that training learns a conversation from one row. */
const CHAT_TEMPLATE = `{%- for message in messages -%}
{{- '<|' + message.role + '|> ' + (message.content or '') -}}
{%- for call in message.tool_calls or [] -%}
{{- '<tool_call> {"name": "' + call.function.name + '", "arguments": ' -}}
{{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson -}}
{{- '} </tool_call>' -}}
{%- endfor -%}
{{- ' <|end|> ' if message.role == 'assistant' else ' ' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}
`

/** Writes tokenizer.json, tokenizer_config.json and chat_template.jinja. Gives the size of the vocabulary. */
export function writeLanguage(folder: string, { words, tools, digits }: Language): number {
  const calls = tools.length === 0 ? [] : [...tools.map(({ name, argument }) => opening(name, argument)), CLOSING]
  const vocabulary = [...new Set([...SPECIAL, ...calls, ...(digits ? '0123456789' : []), ...words])]
  const added = (content: string) => ({
    ...{ id: vocabulary.indexOf(content), content, special: SPECIAL.includes(content) },
    ...{ single_word: false, lstrip: false, rstrip: false, normalized: false },
  })
  const write = (file: string, content: object) => writeFileSync(join(folder, file), `${JSON.stringify(content, null, 1)}\n`)
  mkdirSync(folder, { recursive: true })
  write('tokenizer.json', {
    version: '1.0',
    truncation: null,
    padding: null,
    added_tokens: [...SPECIAL, ...calls].map(added),
    normalizer: null,
    pre_tokenizer: {
      type: 'Sequence',
      pretokenizers: [{ type: 'WhitespaceSplit' }, ...(digits ? [{ type: 'Digits', individual_digits: true }] : [])],
    },
    post_processor: null,
    // Words are put together again with spaces between them.
    decoder: null,
    model: { type: 'WordLevel', unk_token: '<unk>', vocab: Object.fromEntries(vocabulary.map((token, id) => [token, id])) },
  })
  write('tokenizer_config.json', {
    ...{ tokenizer_class: 'PreTrainedTokenizerFast', eos_token: '<|end|>', pad_token: '<pad>', unk_token: '<unk>' },
  })
  writeFileSync(join(folder, 'chat_template.jinja'), CHAT_TEMPLATE)
  return vocabulary.length
}
