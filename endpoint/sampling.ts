// The members that the APIs share: how tokens are drawn, and what else an answer is to hold.

import type { Ask } from './api.ts'
import { flagIn, integerIn, isJson, listIn, numberIn, recordIn, textIn, wrong, type Json } from './fields.ts'
import { invalid } from './errors.ts'

const MAX_STOPS = 16
const NAME = /^[a-zA-Z0-9_-]{1,64}$/
const MAX_ANSWERS = 128
export const MAX_TOP_LOGPROBS = 20

type Shared = Pick<
  Ask,
  'body' | 'temperature' | 'top_p' | 'top_k' | 'seed' | 'stop' | 'n' | 'stream' | 'include_usage' | 'return_token_ids'
>

export function readShared(body: Json): Shared {
  const stream = flagIn(body, 'stream') ?? false
  const options = recordIn(body, 'stream_options')
  if (options && !stream) throw invalid('stream_options', `'stream_options' may only be given where 'stream' is true`)
  refuse(body)
  return {
    body,
    temperature: numberIn(body, 'temperature', 0, 2),
    top_p: numberIn(body, 'top_p', 0, 1),
    // vLLM has -1 for no limit as well.
    top_k: Math.max(0, integerIn(body, 'top_k', -1) ?? 0) || undefined,
    seed: integerIn(body, 'seed', Number.MIN_SAFE_INTEGER),
    stop: readStop(body),
    n: integerIn(body, 'n', 1, MAX_ANSWERS) ?? 1,
    stream,
    include_usage: (options && flagIn(options, 'include_usage')) ?? false,
    return_token_ids: flagIn(body, 'return_token_ids') ?? false,
  }
}

/** What would change the answer and is not done here must not be passed over in silence. */
function refuse(body: Json): void {
  for (const name of ['frequency_penalty', 'presence_penalty'])
    if (numberIn(body, name, -2, 2)) throw invalid(name, `'${name}' is not supported by this model`, 'unsupported_parameter')
  for (const name of ['logit_bias', 'functions', 'audio', 'guided_json', 'guided_regex', 'structured_outputs']) {
    const value = body[name] ?? undefined
    if (value !== undefined && !(isJson(value) && Object.keys(value).length === 0))
      throw invalid(name, `'${name}' is not supported by this model`, 'unsupported_parameter')
  }
}

function readStop(body: Json): readonly string[] {
  if (typeof body.stop === 'string') return body.stop === '' ? [] : [body.stop]
  return (listIn(body, 'stop', MAX_STOPS) ?? []).map((stop, i) => {
    if (typeof stop !== 'string' || stop === '') throw wrong(`stop[${i}]`, 'a string that is not empty', stop)
    return stop
  })
}

/** `response_format` of a chat, or `text.format` of a response. @param inner where a chat has what a response has beside the type */
export function readFormat(format: Json | undefined, at: string, inner?: string): Ask['format'] {
  const type = (format && textIn(format, 'type', `${at}.type`)) ?? 'text'
  if (type === 'text') return null
  if (type === 'json_object') return { schema: { type: 'object' }, at: `${at}.type` }
  if (type !== 'json_schema') throw wrong(`${at}.type`, 'one of text, json_object, json_schema', type)
  const [named, place] = inner === undefined ? [format!, at] : [recordIn(format!, inner, `${at}.${inner}`) ?? {}, `${at}.${inner}`]
  const name = textIn(named, 'name', `${place}.name`)
  if (name === undefined || !NAME.test(name)) throw wrong(`${place}.name`, 'a name of letters, digits, _ and -', name)
  flagIn(named, 'strict', `${place}.strict`)
  const schema = recordIn(named, 'schema', `${place}.schema`)
  if (!schema) throw wrong(`${place}.schema`, 'a JSON schema', schema)
  return { schema, at: `${place}.schema` }
}
