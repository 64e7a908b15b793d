// The options of a model, whichever engine answers for it, and the engines that they make.

import type { Context } from '../../pipeline/component.ts'
import { duration, flag, group, list, number, oneOf, secret, text, type Config } from '../../pipeline/schema.ts'
import { toolParsers } from '../../policy/tool_parsers/index.ts'
import type { Policies } from '../../storage/policies.ts'
import type { Model } from '../models.ts'
import { builtinEngine } from './builtin.ts'
import { scriptedEngine } from './scripted.ts'
import { upstreamEngine } from './upstream.ts'

export const modelFields = {
  engine: oneOf(
    ['builtin', 'upstream', 'scripted'],
    "What answers: `builtin`, Leyden's own decoder; `upstream`, another server of OpenAI's API; `scripted`, the `answers` below.",
  ),
  policy: text(
    'builtin: the policy whose live version answers, taken within a second of its publication; null: the model in `base` and no other.',
    { default: null },
  ),
  base: text('builtin: Hugging Face folder of the model as it was before training; null: where the policy says it is.', { default: null }),
  tool_parser: oneOf(Object.keys(toolParsers), 'builtin: how the model writes tool calls.', { default: 'hermes' }),
  kernels: oneOf(
    ['auto', 'blas', 'decomp'],
    'builtin: what multiplies matrices: OpenBLAS, or what comes along. `auto` is OpenBLAS where it is installed.',
    { default: 'auto' },
  ),
  max_running: number('builtin: answers that are drawn at the same time; more wait.', { default: 32, min: 1, integer: true }),
  cache_mib: number('builtin: MiB for what was read of prompts.', { default: 256, min: 1 }),
  loaded_versions: number('builtin: versions that are held beside the live one, for requests that pin them as `name@7`.', {
    default: 2,
    min: 1,
    integer: true,
  }),
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

function problemsOf({ engine, url, answers, policy, base }: ModelOptions): { path: string[]; message: string }[] {
  if (engine === 'builtin' && policy === null && base === null)
    return [{ path: [], message: 'needs "policy", or "base": the folder of a model' }]
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

const MIB = 1024 * 1024

/** @param policies asked for when an engine starts */
export function openModels(
  models: Readonly<Record<string, ModelOptions>>,
  policies: () => Policies,
  context: Context,
): ReadonlyMap<string, Model> {
  return new Map(Object.entries(models).map(([name, options]) => [name, openModel(name, options)]))

  function openModel(name: string, options: ModelOptions): Model {
    const { engine, answers, word_interval, url, model, forward_headers } = options
    if (engine === 'scripted') return { engine: scriptedEngine({ model: name, answers, word_interval }), versioned: false }
    if (engine === 'builtin') {
      const { max_running, cache_mib, kernels } = options
      const decoder = { max_running, cache_bytes: cache_mib * MIB, kernels }
      const tool_parser = toolParsers[options.tool_parser]!
      return { engine: builtinEngine({ ...options, name, tool_parser, decoder }, policies, context), versioned: true }
    }
    const headers = forward_headers.map((header) => header.toLowerCase())
    const upstream = { ...options, url: url!, model: model ?? name, forward_headers: headers }
    return { engine: upstreamEngine(upstream, policies, context), versioned: options.policy !== null }
  }
}
