// A conversation sends its whole history with every call. Equal messages of one rollout become one object, so that what a run of many turns
// holds grows with what was said and not with its square.

import type { Message, Part } from './dialect.ts'
import { hold, sameText, textKeeper, textLook } from './held_text.ts'

/** As many messages that look alike are compared with a further one. */
const COMPARED = 8

/** Gives the first message that was equal to this one; else itself, or one equal to it, with its long texts held. */
export function messageSharer(): (message: Message) => Message {
  // Nearly every look is that of one message.
  const alike = new Map<number, Message | Message[]>()
  const keep = textKeeper()

  return (message) => {
    const look = lookOf(message)
    const known = alike.get(look)
    const same = Array.isArray(known)
      ? known.find((other) => sameMessage(other, message))
      : known && sameMessage(known, message)
        ? known
        : undefined
    if (same) return same
    const kept = held(message)
    kept.parts.forEach(keep)
    if (known === undefined) alike.set(look, kept)
    else if (!Array.isArray(known)) alike.set(look, [known, kept])
    else if (known.length < COMPARED) known.push(kept)
    return kept
  }
}

function held(message: Message): Message {
  const parts = message.parts.map(hold)
  return parts.every((part, i) => part === message.parts[i]) ? message : { ...message, parts }
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
