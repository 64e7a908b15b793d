// A conversation sends its whole history with every call. Equal messages of one rollout become one object, so that what a run of many turns
// holds grows with what was said and not with its square.

import type { Message, Part } from './dialect.ts'
import { hold, sameText, textKeeper, textLook } from './held_text.ts'

/** As many messages that look alike are compared with a further one. */
const COMPARED = 8

/** Gives the first message that was equal to this one; else one equal to it, whose long texts are held. */
export function messageSharer(): (message: Message) => Message {
  const alike = new Map<number, Message[]>()
  const keep = textKeeper()

  return (message) => {
    const look = lookOf(message)
    const known = alike.get(look)
    const same = known?.find((other) => sameMessage(other, message))
    if (same) return same
    const parts = message.parts.map(hold)
    parts.forEach(keep)
    const kept = { ...message, parts }
    if (!known) alike.set(look, [kept])
    else if (known.length < COMPARED) known.push(kept)
    return kept
  }
}

/** A look at a few of their bytes tells most messages apart, and only those that look alike are compared whole. */
export function lookOf({ role, parts }: Message): number {
  let look = role.length
  for (const part of parts) look = Math.imul(look ^ textLook(part), 0x01000193)
  return look
}

export function sameMessage(a: Message, b: Message): boolean {
  if (a === b) return true
  return (
    a.role === b.role && a.name === b.name && a.parts.length === b.parts.length && a.parts.every((part, i) => samePart(part, b.parts[i]!))
  )
}

function samePart(a: Part, b: Part): boolean {
  const [x, y] = [a, b] as Record<string, unknown>[]
  for (const key in x) if (key !== 'text' && x[key] !== y![key]) return false
  for (const key in y) if (key !== 'text' && x![key] !== y[key]) return false
  return sameText(a, b)
}
