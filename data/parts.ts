// What belongs to another reading, such as the message events of a call, joined with it.

import type { CallReading, PartReading, Reading, ToolReading } from './dialect.ts'
import { fillGaps } from './duplicates.ts'
import { spanKey } from './items.ts'
import type { Item } from './span.ts'

export interface Found {
  readonly item: Item
  readonly dialect: string
  readonly reading: Reading
}

/** The parts of each span, in order, by spanKey of their owner. */
export function groupParts(found: readonly Found[]): Map<string, PartReading[]> {
  const parts = new Map<string, PartReading[]>()
  for (const { item, reading } of found) {
    if (reading.kind !== 'part') continue
    const key = spanKey(item.trace_id, reading.of)
    const known = parts.get(key)
    if (known) known.push(reading)
    else parts.set(key, [reading])
  }
  return parts
}

export function completeCall(call: CallReading, parts: readonly PartReading[]): CallReading {
  const filled = parts.reduce((whole, part) => (part.call ? fillGaps(whole, part.call) : whole), call)
  const messages = parts.flatMap((part) => part.messages ?? [])
  const actions = parts.flatMap((part) => part.action ?? []).filter((action) => !isAsked(filled, action))
  return {
    ...filled,
    prompt: filled.prompt.length > 0 ? filled.prompt : messages,
    ...(actions.length > 0 ? { completion: { role: 'assistant', parts: [...(filled.completion?.parts ?? []), ...actions] } } : {}),
  }
}

function isAsked({ completion }: CallReading, action: NonNullable<PartReading['action']>): boolean {
  if (action.kind !== 'tool_call' || action.id === undefined) return false
  return (completion?.parts ?? []).some((part) => part.kind === 'tool_call' && part.id === action.id)
}

/** What a part says of a tool comes from closer to its execution than the tool's own span. */
export const completeTool = (tool: ToolReading, parts: readonly PartReading[]): ToolReading =>
  parts.reduce((whole, part) => ({ ...whole, ...part.tool }), tool)
