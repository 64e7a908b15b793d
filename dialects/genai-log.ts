// OpenTelemetry's GenAI events as log records: the messages of a call up to 1.36, one record each;
// the whole call in one record since; and evaluation results. Spans: genai.ts.

import type { Dialect, PartReading, Reading, RewardReading } from '../data/dialect.ts'
import { EVALUATION, readEvaluation } from '../data/evaluation.ts'
import { callOf, contentOf, inferenceOf, isMessageEvent, readMessageEvent } from '../data/genai.ts'
import type { Item, LogRecord } from '../data/span.ts'
import { textOf } from '../data/values.ts'

const DETAILS = 'gen_ai.client.inference.operation.details'

export default {
  name: 'genai-log',
  signs: {},

  matches: (item) =>
    item.signal === 'log' && (item.event_name === DETAILS || item.event_name === EVALUATION || isMessageEvent(item.event_name)),

  read(item): Reading | null {
    const record = item as LogRecord
    if (record.event_name === EVALUATION) return null
    return record.event_name === DETAILS ? details(record) : message(record)
  },

  rewards(item: Item): RewardReading[] {
    if (item.signal !== 'log' || item.event_name !== EVALUATION) return []
    const { trace_id, span_id } = item
    return [readEvaluation(item.attributes, trace_id === '' ? {} : span_id === '' ? { trace_id } : { trace_id, span_id })]
  },
} satisfies Dialect

function message({ span_id, event_name, body }: LogRecord): PartReading {
  const { messages, ...answer } = readMessageEvent(event_name, body)
  return { kind: 'part', of: span_id, messages, call: Object.keys(answer).length > 0 ? answer : undefined }
}

/** Outside of any span it is the call itself. */
function details({ span_id, attributes }: LogRecord): Reading | null {
  const said = textOf(attributes['gen_ai.operation.name']) ?? 'chat'
  const operation = inferenceOf(said)
  const call = callOf(attributes, { operation: operation ?? said, tokens: undefined, ...contentOf(attributes) })
  if (span_id !== '') return { kind: 'part', of: span_id, call }
  return operation === undefined ? null : call
}
