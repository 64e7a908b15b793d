// A score as POST /v1/scores takes it, and the log record that it becomes. The fields are those of Langfuse's score, and
// more ways to say what the score is about.

import { hash } from 'node:crypto'

import { EVALUATION, SCORE } from './evaluation.ts'
import { MAX_REWARD } from './score.ts'

/** A score that cannot be taken, in words for its sender. */
export class InvalidScore extends Error {
  override name = 'InvalidScore'
}

export interface ScoreRecord {
  readonly id: string
  /** An OTLP LogRecord as JSON. */
  readonly record: object
}

type Body = Readonly<Record<string, unknown>>

/** Who gave it, as Langfuse says it and as Leyden does. */
const SOURCES: Readonly<Record<string, string>> = {
  API: 'environment',
  ANNOTATION: 'human',
  EVAL: 'judge',
  environment: 'environment',
  human: 'human',
  judge: 'judge',
}

const MAX_TEXT = 1_024
const MAX_COMMENT = 64 * 1_024
const MAX_ATTRIBUTES = 16

/** @param now milliseconds since the epoch, for a score without `timestamp` @throws InvalidScore */
export function scoreRecord(body: unknown, now: number): ScoreRecord {
  if (!isObject(body)) throw new InvalidScore(`must be an object (got ${shown(body)})`)
  const name = textIn(body, 'name') ?? refuse('name is missing')
  const value = valueOf(body)
  const source = sourceOf(body)
  const traceId = hexIn(body, 'traceId', 32)
  const spanId = hexIn(body, 'observationId', 16) ?? hexIn(body, 'spanId', 16)
  const target = {
    'gen_ai.response.id': textIn(body, 'responseId'),
    'session.id': textIn(body, 'sessionId'),
    [SCORE.rollout_id]: textIn(body, 'rolloutId'),
    [SCORE.attempt_id]: textIn(body, 'attemptId'),
    [SCORE.span_id]: traceId === undefined ? spanId : undefined,
    ...attributesIn(body),
  }
  const about = JSON.stringify([traceId, spanId, target])
  if (!traceId && Object.entries(target).every(([key, said]) => said === undefined || key === SCORE.attempt_id)) {
    throw new InvalidScore('says not what it is about: name traceId, observationId, sessionId, rolloutId, responseId or attributes')
  }
  // Without an id of its own, the same thing said again of the same target is the same score.
  const id = textIn(body, 'id') ?? digest(JSON.stringify([about, name, value, source, body.timestamp ?? null]))
  const time = String(BigInt(timeOf(body, now)) * 1_000_000n)
  return {
    id,
    record: {
      timeUnixNano: time,
      observedTimeUnixNano: String(BigInt(now) * 1_000_000n),
      eventName: EVALUATION,
      // A score that names no trace is one of its own until Leyden knows which rollout is meant.
      traceId: traceId ?? digest(id).slice(0, 32),
      ...(traceId && spanId ? { spanId } : {}),
      attributes: keyValues({
        'gen_ai.evaluation.name': name,
        'gen_ai.evaluation.score.value': value,
        'gen_ai.evaluation.explanation': textIn(body, 'comment', MAX_COMMENT),
        [SCORE.id]: id,
        [SCORE.source]: source,
        [SCORE.annotator]: textIn(body, 'annotator'),
        [SCORE.override]: body.override === true ? true : undefined,
        [SCORE.detached]: traceId === undefined ? true : undefined,
        ...target,
      }),
    },
  }
}

function valueOf({ value, dataType }: Body): number | boolean {
  if (dataType !== undefined && dataType !== null && dataType !== 'NUMERIC' && dataType !== 'BOOLEAN') {
    throw new InvalidScore(`dataType must be NUMERIC or BOOLEAN: a label is no reward (got ${shown(dataType)})`)
  }
  if (typeof value === 'boolean') return value
  if (dataType === 'BOOLEAN' && value !== 0 && value !== 1)
    throw new InvalidScore(`value must be true, false, 1 or 0 (got ${shown(value)})`)
  if (typeof value !== 'number' || !(Math.abs(value) <= MAX_REWARD)) {
    throw new InvalidScore(`value must be a finite number, true or false (got ${shown(value)})`)
  }
  return value
}

function sourceOf({ source }: Body): string {
  if (source === undefined || source === null) return 'environment'
  const known = Object.hasOwn(SOURCES, String(source)) ? SOURCES[String(source)] : undefined
  return known ?? refuse(`source must be one of ${Object.keys(SOURCES).join(', ')} (got ${shown(source)})`)
}

/** Milliseconds since the epoch. */
function timeOf({ timestamp }: Body, now: number): number {
  if (timestamp === undefined || timestamp === null) return now
  const time = typeof timestamp === 'string' ? Date.parse(timestamp) : NaN
  return time >= 0 ? time : refuse(`timestamp must be a time as ISO 8601 writes it (got ${shown(timestamp)})`)
}

function attributesIn({ attributes }: Body): Record<string, string> {
  if (attributes === undefined || attributes === null) return {}
  if (!isObject(attributes)) throw new InvalidScore(`attributes must be an object (got ${shown(attributes)})`)
  const entries = Object.entries(attributes)
  if (entries.length > MAX_ATTRIBUTES) throw new InvalidScore(`attributes must be at most ${MAX_ATTRIBUTES} (got ${entries.length})`)
  return Object.fromEntries(entries.map(([key]) => [key, textIn(attributes, key) ?? refuse(`attributes.${key} must be text or a number`)]))
}

/** Text, also from a whole number; undefined where there is none. */
function textIn(body: Body, key: string, max = MAX_TEXT): string | undefined {
  const value = body[key]
  if (value === undefined || value === null || value === '') return undefined
  const text = Number.isSafeInteger(value) ? String(value) : value
  if (typeof text !== 'string') throw new InvalidScore(`${key} must be text (got ${shown(value)})`)
  if (text.length > max || text.includes('\u0000')) throw new InvalidScore(`${key} must be at most ${max} characters, without NUL`)
  return text
}

/** An id as OpenTelemetry writes it; a UUID may stand for a trace id. */
function hexIn(body: Body, key: string, digits: number): string | undefined {
  const id = textIn(body, key)?.toLowerCase()
  const hex = digits === 32 ? id?.replaceAll('-', '') : id
  if (hex === undefined || (hex.length === digits && /^[0-9a-f]+$/.test(hex) && !/^0+$/.test(hex))) return hex
  throw new InvalidScore(`${key} must be ${digits} hex digits (got ${shown(body[key])})`)
}

const keyValues = (record: Readonly<Record<string, string | number | boolean | undefined>>) =>
  Object.entries(record).flatMap(([key, value]) => (value === undefined ? [] : [{ key, value: anyValue(value) }]))

function anyValue(value: string | number | boolean): object {
  if (typeof value === 'number') return { doubleValue: value }
  return typeof value === 'boolean' ? { boolValue: value } : { stringValue: value }
}

const isObject = (value: unknown): value is Body => typeof value === 'object' && value !== null && !Array.isArray(value)
/** Ten thousand scores may come at once: a Hash of its own for each takes more than twice as long. */
const digest = (text: string) => hash('sha256', text)
const shown = (value: unknown) => (value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 80))

function refuse(message: string): never {
  throw new InvalidScore(message)
}
