// Renders messages as the policy was taught to read them: the Jinja template of its Hugging Face folder.

import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

import { readJson, tokenText, type Json } from './hugging_face.ts'

/** A message of OpenAI's chat completions. */
export interface ChatMessage {
  readonly role: string
  readonly content?: string | null | readonly { readonly type: string; readonly text?: string }[]
  readonly name?: string
  readonly tool_call_id?: string
  readonly tool_calls?: readonly {
    readonly id?: string
    readonly type?: string
    readonly function: { readonly name: string; readonly arguments: unknown }
  }[]
}

export interface ChatOptions {
  readonly tools?: readonly unknown[] | undefined
  /** Ends the text where the policy's answer begins. */
  readonly add_generation_prompt: boolean
}

type Render = (messages: readonly ChatMessage[], options: ChatOptions) => string

/** `Template`: of @huggingface/jinja. A folder without a template is an error only when a chat comes. */
export function chatTemplate(folder: string, config: Json, Template: new (source: string) => { render(items: Json): string }): Render {
  const told = readTemplates(folder, config)
  const compiled = new Map<string, { render(items: Json): string }>()
  const compile = (source: string) => {
    const template = compiled.get(source) ?? new Template(source)
    compiled.set(source, template)
    return template
  }
  return (messages, { tools, add_generation_prompt }) => {
    const given = tools?.length ? tools : undefined
    const source = (given && told.tool_use) ?? told.default
    if (source === undefined) {
      throw new Error(`${folder}: has no chat template; add chat_template.jinja, or ask for a completion of plain text`)
    }
    const items = {
      messages: messages.map((message) => plain(message, source)),
      ...(given && { tools: given }),
      add_generation_prompt,
      bos_token: tokenText(config.bos_token) ?? '',
      eos_token: tokenText(config.eos_token) ?? '',
    }
    try {
      return compile(source).render(items)
    } catch (error) {
      throw new Error(`the chat template of ${folder} does not take these messages: ${(error as Error).message}`)
    }
  }
}

/** In a file of its own, or in tokenizer_config.json: one template, or several by name. */
function readTemplates(folder: string, config: Json): { readonly default?: string; readonly tool_use?: string } {
  const file = join(folder, 'chat_template.jinja')
  if (existsSync(file)) return { default: readFileSync(file, 'utf8') }
  const told: unknown = config.chat_template ?? readJson(join(folder, 'chat_template.json'))?.chat_template
  if (typeof told === 'string') return { default: told }
  return Array.isArray(told) ? Object.fromEntries(told.map(({ name, template }: Json) => [name, template])) : {}
}

/**
 * What templates expect: text, never null or parts, and arguments as an object. A template that asks whether they are a string gets
 * them as the policy wrote them, so that the next prompt goes on from its very tokens.
 */
function plain(message: ChatMessage, source: string): Json {
  const { content, tool_calls, ...rest } = message
  const verbatim = /arguments\s+is\s+string/.test(source)
  return {
    ...rest,
    content: textOf(content),
    ...(tool_calls?.length && {
      tool_calls: tool_calls.map((call) => ({
        ...call,
        function: { ...call.function, arguments: verbatim ? call.function.arguments : parsed(call.function.arguments) },
      })),
    }),
  }
}

function textOf(content: ChatMessage['content']): string {
  if (typeof content === 'string' || content === null || content === undefined) return content ?? ''
  const other = content.find(({ type, text }) => type !== 'text' || typeof text !== 'string')
  if (other) throw new Error(`a policy reads text only (a part of type "${other.type}")`)
  return content.map(({ text }) => text).join('')
}

function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value
  try {
    return JSON.parse(value)
  } catch {
    return value
  }
}
