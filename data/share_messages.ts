// A conversation sends its whole history with every call. Equal messages of one rollout become one object, so that what a run of many turns
// holds grows with what was said and not with its square.

import type { Message, Part } from './dialect.ts'
import { sameText, textHolder, textLength, textLook } from './held_text.ts'

/** As many messages that look alike are compared with a further one. */
const COMPARED = 8
/** Characters of distinct messages. What a run says up to here stays as it is; what is beyond is held outside of the heap. */
const MOST_IN_HEAP = 4 << 20

/** Gives the first message that was equal to this one; else the message itself, or one equal to it. */
export function messageSharer(): (message: Message) => Message {
  const alike = new Map<number, Message[]>()
  const hold = textHolder()
  let inHeap = 0

  function first(message: Message): Message {
    if (inHeap > MOST_IN_HEAP) return { ...message, parts: message.parts.map(hold) }
    for (const part of message.parts) inHeap += textLength(part)
    return message
  }

  return (message) => {
    const look = lookOf(message)
    const known = alike.get(look)
    const same = known?.find((other) => sameMessage(other, message))
    if (same) return same
    const kept = first(message)
    if (!known) alike.set(look, [kept])
    else if (known.length < COMPARED) known.push(kept)
    return kept
  }
}

/** A look at a few of their characters tells most messages apart, and only those that look alike are compared whole. */
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
