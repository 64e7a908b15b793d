// The agent: asks the model, runs the calculator when the model wants it, stops at an answer. The model's calls are recorded by the endpoint;
// the agent itself and its tool are spans of OpenTelemetry, in the words of its conventions for generative AI. Nothing here knows Leyden.

import { context, propagation, SpanStatusCode, trace } from '@opentelemetry/api'
import type OpenAI from 'openai'

import { calculator, evaluate } from './calculator.ts'

type Message = OpenAI.Chat.ChatCompletionMessageParam
type ToolCall = OpenAI.Chat.ChatCompletionMessageToolCall

const MAX_TURNS = 3

const tracer = trace.getTracer('calculator_agent')

/** How to ask the model. */
export interface Asking {
  readonly client: OpenAI
  readonly model: string
  readonly temperature?: number
}

/** Null where there is no answer after MAX_TURNS. */
export function solve(asking: Asking, question: string): Promise<string | null> {
  const attributes = { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'calculator_agent' }
  return tracer.startActiveSpan('invoke_agent calculator_agent', { attributes }, async (span) => {
    try {
      return await converse(asking, question)
    } finally {
      span.end()
    }
  })
}

async function converse({ client, ...parameters }: Asking, question: string): Promise<string | null> {
  const messages: Message[] = [{ role: 'user', content: question }]
  for (let turn = 0; turn < MAX_TURNS; turn++) {
    const headers = {}
    propagation.inject(context.active(), headers)
    const { choices } = await client.chat.completions.create({ ...parameters, messages, tools: [calculator] }, { headers })
    const { message } = choices[0]!
    messages.push(message)
    if (!message.tool_calls?.length) return message.content
    for (const call of message.tool_calls) messages.push({ role: 'tool', tool_call_id: call.id, content: runTool(call) })
  }
  return null
}

/** What the calculator returned or, since the model should learn of it, why it failed. */
function runTool(call: ToolCall): string {
  const { name, arguments: args } = call.type === 'function' ? call.function : { name: call.custom.name, arguments: call.custom.input }
  const attributes = {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': name,
    'gen_ai.tool.call.id': call.id,
    'gen_ai.tool.call.arguments': args,
  }
  return tracer.startActiveSpan(`execute_tool ${name}`, { attributes }, (span) => {
    try {
      const { expression } = JSON.parse(args) as { expression: unknown }
      const result = String(evaluate(String(expression)))
      span.setAttribute('gen_ai.tool.call.result', result)
      return result
    } catch (error) {
      const { name: type, message } = error as Error
      span.setAttribute('error.type', type)
      span.recordException(error as Error)
      span.setStatus({ code: SpanStatusCode.ERROR, message })
      return message
    } finally {
      span.end()
    }
  })
}
