// AIR, automatic intermediate rewarding (named in the Agent Lightning paper, section 3.4.2, and specified nowhere):
// what the tools really did, in four classes. An outage is not the policy's fault, so env_error beats
// policy_error beats empty beats ok.

import { globs } from '../data/glob.ts'
import type { AirClass, Tool } from '../data/rollout.ts'
import type { Value } from '../data/span.ts'
import { sorted } from '../data/tool_values.ts'

/** Holds when each of its lists that is not empty holds a match. */
export interface Rule {
  readonly class: AirClass
  /** Globs. */
  readonly tools?: readonly string[]
  readonly statuses?: readonly string[]
  readonly error_types?: readonly string[]
  readonly http_statuses?: readonly string[]
  readonly grpc_statuses?: readonly string[]
  readonly exit_codes?: readonly string[]
  /** Regular expressions on the beginning of the result. */
  readonly texts?: readonly string[]
}

const RULES: readonly Rule[] = [
  {
    class: 'env_error',
    error_types: [
      ...['*timeout*', '*timed?out*', 'etimedout', '*deadline*', '*cancel*', 'abort*', '*connect*', 'econn*', 'epipe', 'brokenpipe*'],
      ...['enotfound', 'eai_again', 'ehostunreach', 'enetunreach', '*gaierror', '*rate?limit*', '*ratelimit*', '*unavailable*'],
    ],
  },
  // 401 and 403 tell of the configuration.
  { class: 'env_error', http_statuses: ['401', '403', '408', '425', '429', '5??'] },
  // cancelled, unknown, deadline, permission, exhausted, aborted, internal, unavailable, data loss, unauthenticated
  { class: 'env_error', grpc_statuses: ['1', '2', '4', '7', '8', '10', '13', '14', '15', '16'] },
  // timeout(1), SIGINT, SIGKILL (out of memory), SIGTERM
  { class: 'env_error', exit_codes: ['124', '130', '137', '143'] },
  {
    class: 'env_error',
    statuses: ['error'],
    texts: ['connection (refused|reset|aborted|error)|timed out|rate limit|too many requests|service unavailable'],
  },
  { class: 'policy_error', statuses: ['error'] },
  { class: 'policy_error', http_statuses: ['4??'] },
  { class: 'policy_error', grpc_statuses: ['3', '5', '6', '9', '11', '12'] },
  { class: 'policy_error', exit_codes: ['[1-9]*', '-*'] },
  // Some frameworks report success around an error, LangChain's SQL tool for one.
  { class: 'policy_error', texts: ['^\\s*(Error|Exception|Traceback)\\b|no such (table|column)|syntax error|command not found'] },
  { class: 'empty', texts: ['^\\s*$|^\\s*(\\[\\s*\\]|\\{\\s*\\}|""|null|none|\\(?0 rows\\)?|no results( found)?\\.?)\\s*$'] },
]

/** A long result is judged by how it begins; this also bounds what a regular expression can cost. */
const BEGINNING = 500

export interface Judgement {
  readonly air_class: AirClass
  /** Which rule said so, in words. */
  readonly air_rule: string
}

/** Rules are tried in order, the user's `own` first; what none of them says otherwise of went well. */
export function classifier(own: readonly Rule[]): (tool: Pick<Tool, 'name' | 'result' | 'verdict'>) => Judgement {
  const compiled = [...own, ...RULES].map((rule, i) => ({
    judgement: { air_class: rule.class, air_rule: inWords(rule, i < own.length ? `rules[${i}]: ` : '') },
    holds: compile(rule),
  }))
  return (tool) => compiled.find(({ holds }) => holds(tool))?.judgement ?? FINE
}

/** Nothing speaks against the tool. */
export const FINE: Judgement = { air_class: 'ok', air_rule: 'ok: no rule' }

function inWords({ class: air_class, ...conditions }: Rule, which: string): string {
  const used = Object.entries(conditions).flatMap(([name, list]) => (list.length > 0 ? [name] : []))
  return `${which}${air_class} by ${used.join(' and ')}`
}

function compile(rule: Rule): (tool: Pick<Tool, 'name' | 'result' | 'verdict'>) => boolean {
  const on = (patterns: readonly string[] | undefined) => {
    if (!patterns || patterns.length === 0) return () => true
    const matches = globs(patterns)
    return (value: string | number | undefined) => value !== undefined && matches(String(value))
  }
  const tools = on(rule.tools)
  const statuses = on(rule.statuses)
  const errorTypes = on(rule.error_types)
  const httpStatuses = on(rule.http_statuses)
  const grpcStatuses = on(rule.grpc_statuses)
  const exitCodes = on(rule.exit_codes)
  const texts = rule.texts && rule.texts.length > 0 ? rule.texts.map((text) => new RegExp(text, 'i')) : null
  return ({ name, result, verdict }) =>
    tools(name) &&
    statuses(verdict.status) &&
    errorTypes(verdict.error_type) &&
    httpStatuses(verdict.http_status ?? statusIn(verdict.error_type)) &&
    grpcStatuses(verdict.grpc_status) &&
    exitCodes(verdict.exit_code) &&
    (texts === null || (result !== undefined && anyIn(texts, result.slice(0, BEGINNING))))
}

const anyIn = (patterns: readonly RegExp[], text: string): boolean => patterns.some((pattern) => pattern.test(text))

/** OpenTelemetry writes an HTTP status as the error's type where there is nothing better. */
const statusIn = (errorType: string | undefined) => (errorType !== undefined && /^[1-5]\d\d$/.test(errorType) ? errorType : undefined)

/** What makes two calls of tools the same call: the name and the arguments, however they are spaced and ordered. */
export const toolKey = ({ name = '', arguments: json = '' }: Pick<Tool, 'name' | 'arguments'>): string => `${name}(${canonical(json)})`

/** Gives a number to each call of a tool, the same to those that are the same call. No text is made of name and arguments for it. */
export function toolNumbers(): (tool: Pick<Tool, 'name' | 'arguments'>) => number {
  const names = new Map<string, Map<string, number>>()
  let count = 0
  return ({ name = '', arguments: json = '' }) => {
    let numbers = names.get(name)
    if (!numbers) names.set(name, (numbers = new Map()))
    const key = canonical(json)
    let number = numbers.get(key)
    if (number === undefined) numbers.set(key, (number = count++))
    return number
  }
}

const BLANKS = '[ \t\n\r]*'
/** Nothing escaped in it, and nothing that has to be. */
const TEXT = String.raw`("[^"\\\p{Cc}\p{Cs}]*")`
/** An object of one plain text, as most arguments are. */
const ONE_TEXT = new RegExp(['^', '\\{', TEXT, ':', TEXT, '\\}', '$'].join(BLANKS), 'u')

function canonical(json: string): string {
  // Much of it is plain text, and an error that is thrown costs more than all the rest of a tool.
  if (!/^\s*[[{"\d-]/.test(json)) return json.trim()
  const [, key, value] = ONE_TEXT.exec(json) ?? []
  if (key !== undefined) return key.length + value!.length + 3 === json.length ? json : `{${key}:${value}}`
  try {
    return JSON.stringify(sorted(JSON.parse(json) as Value))
  } catch {
    return json.trim()
  }
}
