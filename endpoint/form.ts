// The form that a request wants its answers in: JSON of a schema, or calls of tools. What a policy cannot be held to is refused, with the member that asks for it.

import type { Form } from '../policy/decoding.ts'
import { schemaNode, SchemaError, type Schema } from '../policy/json_schema.ts'
import type { ToolParser } from '../policy/tool_parsers/parser.ts'
import type { Ask, Tool } from './api.ts'
import { invalid } from './errors.ts'
import { MAX_TOOLS } from './tools.ts'

/** Undefined where the answer may be any text. */
export function formOf({ prompt, format }: Ask, parser: ToolParser): Form | undefined {
  const { tools, tool_choice, parallel_tool_calls } = prompt.kind === 'chat' ? prompt : NO_TOOLS
  const mustCall = tool_choice === 'required' || typeof tool_choice === 'object'
  if (!mustCall && !format) return undefined
  const callable = tools.filter(({ function: { name } }) =>
    typeof tool_choice === 'object' ? name === tool_choice.name : tool_choice !== 'none',
  )
  const form = {
    texts: mustCall ? [] : [[checked(format!.schema, true, format!.at)]],
    several: callable.map((tool) => parser.form(tool.function.name, argumentsOf(tool, mustCall))),
    most: parallel_tool_calls && typeof tool_choice !== 'object' ? MAX_TOOLS : 1,
  }
  if (JSON.stringify(form).length > MAX_CHARACTERS)
    throw invalid('tools', `the schemas together are longer than ${MAX_CHARACTERS} characters`, 'unsupported_schema')
  return form
}

/** Of all schemas that an answer is held to. */
const MAX_CHARACTERS = 200_000

const NO_TOOLS = { tools: [], tool_choice: 'none', parallel_tool_calls: false } as const

/** Where it may do without calling, the policy writes calls as freely as it does where it may say anything. */
function argumentsOf({ function: { parameters }, strict, at }: Tool, mustCall: boolean) {
  const schema = parameters ? { type: 'object', ...parameters } : { type: 'object', properties: {} }
  return checked(schema, strict && mustCall, `${at}.parameters`)
}

function checked(schema: Schema, exact: boolean, at: string) {
  try {
    schemaNode(schema, exact)
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error
    const path = error.path === '' ? at : `${at}.${error.path}`
    throw invalid(path, `'${path}' ${error.message}`, 'unsupported_schema')
  }
  return { schema, exact }
}
