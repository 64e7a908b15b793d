// Arguments and results of tools, out of the wrappers in which frameworks record them.

import type { Value } from './span.ts'
import { decode, jsonOf, listOf, recordOf, textOf, type ValueRecord } from './values.ts'

/** Objects inside which serialisers put a result. */
const RESULT_WRAPPERS = ['output', 'kwargs', 'data', 'toolResult']
const MAX_WRAPPERS = 4

/**
 * Arguments as JSON text. Decorators record `{"args": […], "kwargs": {…}}`, LangChain callbacks
 * `{"input_str": …, "inputs": {…}, "tags": …}`; positional ones come out as a list.
 */
export function unwrapArguments(value: Value | undefined): string | undefined {
  if (typeof value === 'string' && !MAY_BE_WRAPPED.test(value)) return value
  const record = recordOf(decode(value).value)
  if (!record) return jsonOf(value)
  if ('args' in record && 'kwargs' in record) {
    const kwargs = recordOf(record.kwargs) ?? {}
    return jsonOf(listOf(record.args).length === 0 ? kwargs : Object.keys(kwargs).length === 0 ? record.args : record)
  }
  if ('input_str' in record) return jsonOf(record.inputs) ?? jsonOf(record.input_str)
  return jsonOf(value)
}

/** A key of a wrapper, or an escape that may spell one: what has neither need not be parsed. */
const MAY_BE_WRAPPED = /kwargs|input_str|\\[^nrt"'\\/]/

/** The text that the tool returned, and the id of the call it answers where LangChain's ToolMessage carries one. */
export function unwrapResult(value: Value | undefined): { text: string | undefined; call_id: string | undefined } {
  const innermost = payloadsOf(value).at(-1)
  if (innermost?.tool_call_id === undefined) return { text: jsonOf(value), call_id: undefined }
  return { text: jsonOf(innermost.content), call_id: textOf(innermost.tool_call_id) }
}

/** A result as an object, and the objects wrapped in it, from the outside in. Who asks for the latest one is answered at once. */
export function payloadsOf(result: Value | undefined): readonly ValueRecord[] {
  if (typeof result !== 'string') return unwrapped(result)
  if (result !== latest.result) latest = { result, payloads: unwrapped(result) }
  return latest.payloads
}

/** Of every tool they are asked for twice: for its result, and for the verdict. */
let latest: { readonly result: string; readonly payloads: readonly ValueRecord[] } = { result: '', payloads: [] }

function unwrapped(result: Value | undefined): ValueRecord[] {
  const payloads: ValueRecord[] = []
  for (let payload = recordOf(decode(result).value); payload && payloads.length < MAX_WRAPPERS; payload = wrappedIn(payload)) {
    payloads.push(payload)
  }
  return payloads
}

function wrappedIn(payload: ValueRecord): ValueRecord | undefined {
  for (const key of RESULT_WRAPPERS) {
    const inner = payload[key] === undefined ? undefined : recordOf(decode(payload[key]).value)
    if (inner) return inner
  }
  return undefined
}

/** Equal for the same arguments, however they are spelled and ordered. */
export const argumentsKey = (text: string): string => keyOf(text, (value) => JSON.stringify(sorted(value)))

/** Equal for the same values in the same order, with names or without: `{"city": "Rome"}`, `["Rome"]` and `Rome`. */
export const valuesKey = (text: string): string =>
  keyOf(text, (value) => {
    const record = recordOf(value)
    const values = record ? Object.values(record) : Array.isArray(value) ? (value as readonly Value[]) : [value]
    return JSON.stringify(values.map((v) => (typeof v === 'string' ? v : (jsonOf(v) ?? null))))
  })

/** A model may write arguments nested deeper than the stack: their text is then the key. */
function keyOf(text: string, key: (value: Value) => string): string {
  try {
    return key(decode(text).value ?? text)
  } catch (error) {
    if (error instanceof RangeError) return text
    throw error
  }
}

/** The same value with the keys of every record in order. */
export function sorted(value: Value): Value {
  if (Array.isArray(value)) return value.map((item: Value) => sorted(item))
  const record = recordOf(value)
  if (!record) return typeof value === 'bigint' ? String(value) : value
  return Object.fromEntries(
    Object.keys(record)
      .sort()
      .map((key) => [key, sorted(record[key]!)]),
  )
}
