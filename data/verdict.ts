// How a tool execution went, by the evidence of its own span, strongest first: status, error.type,
// exception event, a key that says so, the result's payload, its text, and last the mere presence of
// a status or a result. Only the first ones are sure: 13 of 50 captured failures leave the status alone.

import type { Verdict } from './dialect.ts'
import type { Span, Value } from './span.ts'
import { payloadsOf } from './tool_values.ts'
import { decode, first, isConcealed, numberOf, recordOf, textOf, type ValueRecord } from './values.ts'

export type Said = Pick<Verdict, 'status' | 'evidence'>

/** Keys whose value says success or failure. */
const STATUS_KEYS = ['gen_ai.tool.status', 'gen_ai.task.status']
const FAILURE = /^(error|failed|failure|fail|err)$/i
const SUCCESS = /^(success|successful|succeeded|ok)$/i
const ERROR_TEXT = /^\s*["']?(Error\b|Traceback \(most recent|An error occurred)/

/** @param said what a key of the dialect's own says, which outranks the result */
export function verdictOf(span: Span, result: string | undefined, said?: Said): Verdict {
  const { attributes } = span
  const exception = span.events.findLast((event) => event.name === 'exception')
  const payloads = payloadsOf(result)
  const { status, evidence } = judge(span, exception !== undefined, result, payloads, said)
  return {
    status,
    evidence,
    error_type: textOf(attributes['error.type']) ?? textOf(exception?.attributes['exception.type']),
    http_status: numberOf(first(attributes, ['http.response.status_code', 'http.status_code'])),
    grpc_status: numberOf(attributes['rpc.grpc.status_code']),
    exit_code: numberOf(first(attributes, ['process.exit.code', 'exit_code'])) ?? firstOf(payloads, exitCode),
  }
}

function judge(span: Span, threw: boolean, result: string | undefined, payloads: readonly ValueRecord[], said: Said | undefined): Said {
  if (span.status === 2) return { status: 'error', evidence: 'status.code' }
  if (textOf(span.attributes['error.type'])) return { status: 'error', evidence: 'error.type' }
  if (threw) return { status: 'error', evidence: 'exception event' }
  const explicit = said ?? statusKey(span)
  if (explicit) return explicit
  const told = result === undefined ? undefined : judgePayloads(result, payloads)
  if (told) return told
  if (span.status === 1) return { status: 'ok', evidence: 'status OK' }
  if (result !== undefined && !isConcealed(result)) return { status: 'ok', evidence: 'has result' }
  return { status: 'unknown', evidence: 'no content' }
}

/** What the result itself says, by its structure or by how its text begins; undefined where it says nothing. */
export const judgeResult = (result: string): Said | undefined => judgePayloads(result, payloadsOf(result))

function judgePayloads(result: string, payloads: readonly ValueRecord[]): Said | undefined {
  const status = firstOf(payloads, payloadStatus)
  if (status) return { status, evidence: 'result payload' }
  const shown = textShown(payloads.length > 0 ? payloads.at(-1)!.content : result)
  return shown !== undefined && ERROR_TEXT.test(shown) ? { status: 'error', evidence: 'result text' } : undefined
}

/** Of blocks, as MCP and Anthropic have them, the first one's text. */
function textShown(value: Value | undefined): string | undefined {
  const { value: decoded } = decode(value)
  return textOf(Array.isArray(decoded) ? recordOf(decoded[0])?.text : value)
}

function statusKey({ attributes }: Span): Said | undefined {
  const said = textOf(first(attributes, STATUS_KEYS))
  if (said && FAILURE.test(said)) return { status: 'error', evidence: 'tool.status' }
  if (said && SUCCESS.test(said)) return { status: 'ok', evidence: 'tool.status' }
  return undefined
}

function payloadStatus(payload: ValueRecord): 'ok' | 'error' | undefined {
  const { status } = payload
  if (payload.isError === true || payload.is_error === true || payload.ok === false || payload.success === false) return 'error'
  if (typeof status === 'string' && FAILURE.test(status)) return 'error'
  if (payload.error) return 'error'
  const exit = exitCode(payload)
  if (exit !== undefined) return exit === 0 ? 'ok' : 'error'
  if (payload.isError === false || payload.ok === true || payload.success === true) return 'ok'
  return typeof status === 'string' && SUCCESS.test(status) ? 'ok' : undefined
}

const exitCode = (payload: ValueRecord) => numberOf(payload.exit_code ?? payload.exitCode ?? payload.returncode ?? payload.return_code)

function firstOf<T>(payloads: readonly ValueRecord[], read: (payload: ValueRecord) => T | undefined): T | undefined {
  for (const payload of payloads) {
    const found = read(payload)
    if (found !== undefined) return found
  }
  return undefined
}
