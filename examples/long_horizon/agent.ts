// Takes an order through the warehouse: at each desk an agent with a conversation of its own, all of them on one model. `agent` and `tool`
// make spans of what they do.

import type OpenAI from 'openai'

import { agent, tool } from '../../agent/index.ts'
import { asked, ERROR } from './prompts.ts'
import { DESKS, TOOLS, type Desk, type Warehouse } from './warehouse.ts'

const MOST_CALLS = 24
const MOST_TOKENS = 8

export interface Asking {
  readonly client: OpenAI
  readonly model: string
  readonly temperature?: number
}

const definitions: OpenAI.Chat.ChatCompletionTool[] = TOOLS.map((name) => ({
  type: 'function',
  function: { name, parameters: { type: 'object', properties: { item: { type: 'string' } }, required: ['item'] } },
}))

/** @returns whether the order has left; it has not where an agent gave up, or where they asked too often */
export async function fulfil({ client, ...asking }: Asking, item: string, warehouse: Warehouse): Promise<boolean> {
  const tools = new Map(TOOLS.map((name) => [name, tool(name, (given: { item: string }) => warehouse.use(name, given.item.trim()))]))
  let calls = 0
  for (const desk of DESKS) if (!(await agent(desk.name, () => takenOn(desk)))) return false
  return true

  async function takenOn(desk: Desk): Promise<boolean> {
    const messages: OpenAI.Chat.ChatCompletionMessageParam[] = asked(desk, item)
    const passed = warehouse.passed()
    while (warehouse.passed() === passed && calls++ < MOST_CALLS) {
      const { choices } = await client.chat.completions.create({ ...asking, messages, tools: definitions, max_tokens: MOST_TOKENS })
      const message = choices[0]?.message
      const call = message?.tool_calls?.[0]
      if (!message || call?.type !== 'function') return false
      messages.push(message, { role: 'tool', tool_call_id: call.id, content: await said(call.function) })
    }
    return warehouse.passed() > passed
  }

  /** What a tool answers to the policy, whatever it asked. */
  async function said({ name, arguments: given }: { name: string; arguments: string }): Promise<string> {
    try {
      return (await tools.get(name)?.(JSON.parse(given) as { item: string })) ?? ERROR
    } catch {
      return ERROR
    }
  }
}
