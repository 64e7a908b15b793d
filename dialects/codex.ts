// Codex: log records outside of any span, joined by the conversation's id. They count tokens and tell how tools went;
// what was said is not in them.

import type { CallReading, Dialect, Reading, ToolReading } from '../data/dialect.ts'
import type { Attributes, LogRecord } from '../data/span.ts'
import { jsonOf, numberOf, sessionOf, textOf } from '../data/values.ts'

export default {
  name: 'codex',
  signs: {},

  matches: (item) => item.signal === 'log' && item.event_name.startsWith('codex.'),

  read(item): Reading | null {
    const { event_name, attributes } = item as LogRecord
    if (event_name === 'codex.sse_event' && attributes['event.kind'] === 'response.completed') return readCall(attributes)
    return event_name === 'codex.tool_result' ? readTool(attributes) : null
  },
} satisfies Dialect

/** Numbers are text here. */
const readCall = (attributes: Attributes): CallReading => ({
  kind: 'call',
  operation: 'chat',
  request_model: textOf(attributes.model),
  prompt: [],
  usage: {
    input: numberOf(attributes.input_token_count),
    output: numberOf(attributes.output_token_count),
    cache_read: numberOf(attributes.cached_token_count),
    reasoning: numberOf(attributes.reasoning_token_count),
  },
  session: sessionOf(attributes),
  flags: [],
})

function readTool(attributes: Attributes): ToolReading {
  const success = String(attributes.success)
  const told = success === 'true' || success === 'false'
  return {
    kind: 'tool',
    name: textOf(attributes.tool_name),
    call_id: textOf(attributes.call_id),
    arguments: jsonOf(attributes.arguments),
    result: jsonOf(attributes.output),
    verdict: told ? { status: success === 'true' ? 'ok' : 'error', evidence: 'success' } : { status: 'unknown', evidence: 'no content' },
  }
}
