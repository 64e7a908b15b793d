// Which call goes on where an earlier one left off. A conversation sends its whole history with every call; a call
// that extends another needs only what is new.

import type { Message } from './dialect.ts'
import type { Call } from './rollout.ts'
import { lookOf, sameMessage } from './share_messages.ts'

type Conversed = Pick<Call, 'prompt' | 'completion'>

/**
 * Calls are given in order. The answer for each is the step of the earlier call of the same scope whose prompt and completion
 * begin its prompt, message by message; -1 where there is none. Chains are linear: each step is extended once at
 * most, and a second branch begins anew.
 */
export function chains(calls: readonly Conversed[], scopeOf: (step: number) => string): number[] {
  if (!someGoOn(calls)) return calls.map(() => -1)
  // Equal messages get one number, and so do equal beginnings of conversations: an earlier beginning and a message.
  const scopes = numbering<string>()
  const messages = messageNumbers()
  const beginnings = numbering<number>()
  const open = new Map<number, number>()
  const extend = (beginning: number, message: Message) => beginnings(beginning * MAX_MESSAGES + messages(message))

  return calls.map(({ prompt, completion }, step) => {
    let beginning = -1 - scopes(scopeOf(step))
    let extended = -1
    for (const message of prompt) {
      beginning = extend(beginning, message)
      if (open.has(beginning)) extended = beginning
    }
    const parent = open.get(extended) ?? -1
    open.delete(extended)
    if (completion) open.set(extend(beginning, completion), step)
    return parent
  })
}

/** Whether any prompt holds what may be an answer. In a run of single questions nothing has to be told apart. */
function someGoOn(calls: readonly Conversed[]): boolean {
  const roles = new Set(calls.map(({ completion }) => completion?.role))
  return calls.some(({ prompt }) => prompt.some(({ role }) => roles.has(role)))
}

/** Distinct messages of one rollout; as many beginnings still make an exact integer with them. */
const MAX_MESSAGES = 2 ** 26

function numbering<Key>(): (key: Key) => number {
  const numbers = new Map<Key, number>()
  return (key) => {
    const known = numbers.get(key)
    if (known === undefined) numbers.set(key, numbers.size)
    return known ?? numbers.size - 1
  }
}

/** As many messages that look alike are compared; more are told apart by all they hold, which costs the same for any number of them. */
const COMPARED = 8

function messageNumbers(): (message: Message) => number {
  const alike = new Map<number, { message: Message; number: number }[]>()
  const number = numbering<string>()
  let count = 0
  const find = (message: Message): number => {
    const look = lookOf(message)
    const known = alike.get(look)
    if (!known) {
      alike.set(look, [{ message, number: count }])
      return count++
    }
    const same = known.find((other) => sameMessage(other.message, message))
    if (same) return same.number
    if (known.length === COMPARED) return MAX_MESSAGES / 2 + number(JSON.stringify(message))
    known.push({ message, number: count })
    return count++
  }
  // Most equal messages are one object (share_messages.ts).
  const numbers = new Map<Message, number>()
  return (message) => {
    let known = numbers.get(message)
    if (known === undefined) numbers.set(message, (known = find(message)))
    return known
  }
}
