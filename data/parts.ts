// What belongs to another reading, such as the message events of a call, joined with it.

import type { CallReading, PartReading, ToolReading } from './dialect.ts'
import { completeFrom } from './duplicates.ts'
import type { Found } from './items.ts'
import { fillGaps } from './values.ts'

/** By node of the span they belong to, in order; and the parts of spans that are not in the run. */
export function groupParts(
  found: readonly Found[],
  ownerOf: (trace_id: string, span_id: string) => number,
): { parts: Map<number, PartReading[]>; lost: PartReading[] } {
  const parts = new Map<number, PartReading[]>()
  const lost: PartReading[] = []
  for (const { item, reading } of found) {
    if (reading.kind !== 'part') continue
    const node = ownerOf(item.trace_id, reading.of)
    const known = node === -1 ? lost : parts.get(node)
    if (known) known.push(reading)
    else parts.set(node, [reading])
  }
  return { parts, lost }
}

export function completeCall(call: CallReading, parts: readonly PartReading[]): CallReading {
  if (parts.length === 0) return call
  const filled = parts.reduce((whole, part) => (part.call ? completeFrom(whole, part.call) : whole), call)
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
  parts.reduce<ToolReading>((whole, part) => (part.tool ? (fillGaps(part.tool, whole) as ToolReading) : whole), tool)
