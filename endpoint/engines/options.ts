// The options of a model, whichever engine answers for it, and the engines that they make.

import type { Context } from '../../pipeline/component.ts'
import { duration, flag, group, list, number, oneOf, secret, text, type Config } from '../../pipeline/schema.ts'
import type { Model } from '../models.ts'
import { scriptedEngine } from './scripted.ts'
import { upstreamEngine } from './upstream.ts'

export const modelFields = {
  engine: oneOf(
    ['builtin', 'upstream', 'scripted'],
    "What answers: `builtin`, Leyden's own decoder; `upstream`, another server of OpenAI's API; `scripted`, the `answers` below.",
  ),
  url: text('upstream: base URL of the server, with the version of its API, e.g. http://localhost:8000/v1.', { default: null }),
  api_key: secret('upstream: key of the server. The key of a client is never passed on, unless `forward_headers` says so.', {
    default: null,
  }),
  model: text('upstream: name of the model there; null: the same as here.', { default: null }),
  forward_headers: list(text('Name of a header.'), 'upstream: headers of a request that are passed on.', {
    default: ['traceparent', 'user-agent', 'openai-beta', 'openai-organization', 'openai-project'],
  }),
  timeout: duration('upstream: how long it may be silent.', { default: '5m', min: 1 }),
  retries: number('upstream: how often a request is tried again that did not get the first byte of an answer.', {
    default: 2,
    min: 0,
    integer: true,
  }),
  token_ids: flag('upstream: whether it is asked for token ids and logprobs, as vLLM gives them. They come to the client as well.', {
    default: false,
  }),
  answers: list(
    group(
      {
        when: text('Regular expression on the last message. The first that fits is given; those without one are given in turn.', {
          default: null,
        }),
        text: text('What it says.', { default: '' }),
        tool_calls: list(
          group(
            { name: text('Name of the function.'), arguments: text('Its arguments, as JSON.', { default: '{}' }) },
            'A call of a function.',
          ),
          'The functions it calls.',
          { default: [] },
        ),
        error: number('Status to fail with, `text` being the message.', { default: null, min: 400, max: 599, integer: true }),
      },
      'One answer.',
    ),
    'scripted: its answers.',
    { default: [] },
  ),
  word_interval: duration('scripted: time between two words.', { default: '0s' }),
}
type ModelOptions = Config<typeof modelFields>

export function engineProblems(models: Readonly<Record<string, ModelOptions>>): { path: string[]; message: string }[] {
  return Object.entries(models).flatMap(([name, options]) =>
    problemsOf(options).map(({ path, message }) => ({ path: ['models', name, ...path], message })),
  )
}

function problemsOf({ engine, url, answers }: ModelOptions): { path: string[]; message: string }[] {
  if (engine === 'upstream') {
    if (url === null) return [{ path: [], message: 'needs "url": an upstream is somewhere' }]
    return isHttpUrl(url) ? [] : [{ path: ['url'], message: `must be a URL, e.g. http://localhost:8000/v1 (got ${JSON.stringify(url)})` }]
  }
  if (engine === 'scripted') {
    if (answers.length === 0) return [{ path: [], message: 'needs "answers": a script says something' }]
    return answers.flatMap(({ when }, i) => {
      const problem = when === null ? null : regexProblem(when)
      return problem === null ? [] : [{ path: ['answers', String(i), 'when'], message: problem }]
    })
  }
  return []
}

const isHttpUrl = (url: string): boolean => URL.canParse(url) && /^https?:$/.test(new URL(url).protocol)

function regexProblem(source: string): string | null {
  try {
    new RegExp(source)
    return null
  } catch (error) {
    return `must be a regular expression: ${(error as Error).message}`
  }
}

export function openModels(models: Readonly<Record<string, ModelOptions>>, { count }: Context): ReadonlyMap<string, Model> {
  return new Map(Object.entries(models).map(([name, options]) => [name, openModel(name, options)]))

  function openModel(name: string, options: ModelOptions): Model {
    const { engine, answers, word_interval, url, model, forward_headers } = options
    if (engine === 'scripted') return { engine: scriptedEngine({ model: name, answers, word_interval }), versioned: false }
    const headers = forward_headers.map((header) => header.toLowerCase())
    const retried = () => count('leyden_endpoint_upstream_retries', 1, { model: name })
    return {
      engine: upstreamEngine({ ...options, url: url!, model: model ?? name, forward_headers: headers }, retried),
      versioned: false,
    }
  }
}
