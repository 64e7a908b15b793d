// The spans of vLLM's and SGLang's own servers. They are never a call of their own: they belong to the client's call
// above, and hold no text. What they know are token counts and the request's id, which is the response's too.

import type { Dialect, PartReading, Reading } from '../data/dialect.ts'
import { usageOf } from '../data/genai.ts'
import type { Span } from '../data/span.ts'
import { textOf } from '../data/values.ts'

export default {
  name: 'vllm',
  signs: { keys: ['gen_ai.latency.e2e', 'gen_ai.latency.time_to_first_token'] },

  matches: (item) =>
    item.signal === 'span' &&
    (item.attributes['gen_ai.latency.e2e'] !== undefined || item.attributes['gen_ai.latency.time_to_first_token'] !== undefined),

  read(item): Reading | null {
    const { attributes, parent_span_id } = item as Span
    if (parent_span_id === '') return { kind: 'chain' }
    const response_id = textOf(attributes['gen_ai.request.id'])
    return { kind: 'part', of: parent_span_id, call: { response_id, usage: usageOf(attributes) } } satisfies PartReading
  },
} satisfies Dialect
