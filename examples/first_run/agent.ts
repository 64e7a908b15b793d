// An ordinary agent on the official OpenAI client: it asks the model, runs the tools that the model wants, and stops at an answer.
// Nothing here knows Leyden. The model's calls are traced by the instrumentation (tracing.ts), tools and the agent by a span each,
// in the words of OpenTelemetry's conventions for generative AI.

import { SpanStatusCode, trace } from '@opentelemetry/api'
import type OpenAI from 'openai'

type Message = OpenAI.Chat.ChatCompletionMessageParam
type ToolCall = OpenAI.Chat.ChatCompletionMessageFunctionToolCall

const MAX_TURNS = 8
const RATES: Readonly<Record<string, number>> = { USD: 1, EUR: 0.92, GBP: 0.79 }

const tracer = trace.getTracer('order_agent')

const tools: Readonly<Record<string, (args: any) => object>> = {
  find_order: ({ id }) => ({ id, amount: 45, currency: 'USD' }),
  convert({ amount, from, to }) {
    for (const code of [from, to]) if (!(code in RATES)) throw new RangeError(`unknown currency "${code}", use its ISO 4217 code`)
    return { amount: ((amount * RATES[to]!) / RATES[from]!).toFixed(2), currency: to }
  },
}

const toolSchemas: OpenAI.Chat.ChatCompletionTool[] = [
  schema('find_order', 'Looks up an order.', { id: 'number' }),
  schema('convert', 'Converts an amount from one currency to another.', { amount: 'number', from: 'string', to: 'string' }),
]

export function answer(client: OpenAI, question: string, seed: number): Promise<string> {
  const attributes = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'order_agent' }
  return tracer.startActiveSpan('invoke_agent order_agent', { attributes }, async (span) => {
    try {
      return await converse(client, question, seed)
    } finally {
      span.end()
    }
  })
}

async function converse(client: OpenAI, question: string, seed: number): Promise<string> {
  const messages: Message[] = [
    { role: 'system', content: 'You answer questions about orders.' },
    { role: 'user', content: question },
  ]
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const { choices } = await client.chat.completions.create({ model: 'policy/order-model', messages, tools: toolSchemas, seed })
    const { message } = choices[0]!
    messages.push(message)
    if (!message.tool_calls) return message.content ?? ''
    for (const call of message.tool_calls) {
      if (call.type === 'function') messages.push({ role: 'tool', tool_call_id: call.id, content: runTool(call) })
    }
  }
  throw new Error(`no answer after ${MAX_TURNS} turns`)
}

/** What the tool returned or, since the model should learn of it, why it failed. */
function runTool({ id, function: { name, arguments: args } }: ToolCall): string {
  const attributes = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': name,
    'gen_ai.tool.call.id': id,
    'gen_ai.tool.call.arguments': args,
  }
  return tracer.startActiveSpan(`execute_tool ${name}`, { attributes }, (span) => {
    try {
      const result = JSON.stringify(tools[name]!(JSON.parse(args)))
      span.setAttribute('gen_ai.tool.call.result', result)
      return result
    } catch (error) {
      const { name: type, message } = error as Error
      span.setAttribute('error.type', type)
      span.recordException(error as Error)
      span.setStatus({ code: SpanStatusCode.ERROR, message })
      return `error: ${message}`
    } finally {
      span.end()
    }
  })
}

function schema(name: string, description: string, types: Record<string, string>): OpenAI.Chat.ChatCompletionTool {
  const properties = Object.fromEntries(Object.entries(types).map(([key, type]) => [key, { type }]))
  return { type: 'function', function: { name, description, parameters: { type: 'object', properties, required: Object.keys(types) } } }
}
