// The functions that a request lets the model call.

import type { Tool, ToolChoice } from './api.ts'
import { invalid } from './errors.ts'
import { flagIn, isJson, textIn, wrong, type Json } from './fields.ts'

export const MAX_TOOLS = 128
const NAME = /^[a-zA-Z0-9_.-]{1,64}$/
const TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null']

/** @param fn the function itself: chat has it below `function`, responses do not */
export function readTool(fn: unknown, at: string): Tool {
  if (!isJson(fn)) throw wrong(at, 'an object', fn)
  const name = textIn(fn, 'name', `${at}.name`)
  if (name === undefined || !NAME.test(name)) throw wrong(`${at}.name`, 'a name of letters, digits, _, - and .', name)
  const description = textIn(fn, 'description', `${at}.description`)
  const parameters = fn.parameters ?? undefined
  if (parameters !== undefined) checkSchema(parameters, `${at}.parameters`, name)
  const strict = flagIn(fn, 'strict', `${at}.strict`) ?? false
  return {
    type: 'function',
    function: { name, ...(description === undefined ? {} : { description }), ...(isJson(parameters) ? { parameters } : {}) },
    ...{ strict, at },
  }
}

/** As far as a chat template would trip over it; what the schema means is the model's business. */
function checkSchema(schema: unknown, at: string, name: string): void {
  const problem = schemaProblem(schema)
  if (problem) throw invalid(at, `'${at}' is no JSON schema of the arguments of "${name}": ${problem}`, 'invalid_function_parameters')
}

function schemaProblem(schema: unknown): string | null {
  if (!isJson(schema)) return 'it must be an object'
  if (schema.type !== undefined && schema.type !== 'object') return `its type must be "object" (got ${JSON.stringify(schema.type)})`
  const properties = schema.properties ?? {}
  if (!isJson(properties)) return '"properties" must be an object'
  for (const [key, property] of Object.entries(properties)) {
    if (typeof property === 'boolean') continue
    if (!isJson(property)) return `"properties.${key}" must be a schema`
    const types = Array.isArray(property.type) ? property.type : property.type === undefined ? [] : [property.type]
    if (!types.every((type) => TYPES.includes(type as string))) return `"properties.${key}.type" must be one of ${TYPES.join(', ')}`
  }
  const required = schema.required ?? []
  return Array.isArray(required) && required.every((key) => typeof key === 'string') ? null : '"required" must be a list of strings'
}

/** `named`: the name in an object of `tool_choice`, where the API has it. */
export function readToolChoice(body: Json, tools: readonly Tool[], named: (choice: Json) => unknown): ToolChoice {
  const choice = body.tool_choice ?? (tools.length > 0 ? 'auto' : 'none')
  if (choice === 'auto' || choice === 'none') return choice
  if (choice !== 'required' && !isJson(choice)) throw wrong('tool_choice', 'none, auto, required or the name of a function', choice)
  if (tools.length === 0) throw invalid('tool_choice', `'tool_choice' may only be given where there are 'tools'`)
  if (choice === 'required') return choice
  const name = named(choice)
  if (typeof name !== 'string' || !tools.some((tool) => tool.function.name === name))
    throw invalid('tool_choice', `'tool_choice' names a function that is not among 'tools' (got ${JSON.stringify(name) ?? 'nothing'})`)
  return { name }
}
