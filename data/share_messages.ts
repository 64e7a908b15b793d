// A conversation sends its whole history with every call. Equal messages of one rollout become one object, so that what a run of many turns
// holds grows with what was said and not with its square.

import type { Message, Part } from './dialect.ts'
import { textOfPart } from './messages.ts'

/** As many messages that look alike are compared with a further one. */
const COMPARED = 8
/** Characters of a text that are looked at. */
const LOOKS = 32

/** Gives the first message that was equal to this one; else the message itself. */
export function messageSharer(): (message: Message) => Message {
  const alike = new Map<number, Message[]>()
  return (message) => {
    const look = lookOf(message)
    const known = alike.get(look)
    if (!known) {
      alike.set(look, [message])
      return message
    }
    const same = known.find((other) => sameMessage(other, message))
    if (same) return same
    if (known.length < COMPARED) known.push(message)
    return message
  }
}

/** Messages are long and mostly distinct: a look at a few of their characters tells most of them apart, and only those that look alike are compared whole. */
export function lookOf({ role, parts }: Message): number {
  let look = role.length
  const add = (n: number) => (look = Math.imul(look ^ n, 0x01000193))
  for (const part of parts) {
    const text = textOfPart(part)
    add(text.length)
    for (let i = text.length - 1, step = Math.ceil(text.length / LOOKS); i >= 0; i -= step) add(text.charCodeAt(i))
  }
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
  for (const key in x) if (x[key] !== y![key]) return false
  for (const key in y) if (x![key] !== y[key]) return false
  return true
}
