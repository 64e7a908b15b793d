// Which call goes on where an earlier one left off. A conversation sends its whole history with every call; a call
// that extends another needs only what is new.

import type { Message } from './dialect.ts'
import type { Call } from './rollout.ts'

/**
 * Calls are given in order. The answer is the step of the earlier call of the same scope whose prompt and completion
 * begin this prompt, message by message; -1 where there is none. Chains are linear: each step is extended once at
 * most, and a second branch begins anew.
 */
export function chains(): (call: Pick<Call, 'prompt' | 'completion'>, scope: string, step: number) => number {
  // Equal messages get one number, and so do equal beginnings of conversations: an earlier beginning and a message.
  const messages = numbering()
  const beginnings = numbering()
  const open = new Map<number, number>()
  const extend = (beginning: number, message: Message) => beginnings(`${beginning} ${messages(JSON.stringify(message))}`)

  return ({ prompt, completion }, scope, step) => {
    let beginning = beginnings(scope)
    let extended = -1
    for (const message of prompt) {
      beginning = extend(beginning, message)
      if (open.has(beginning)) extended = beginning
    }
    const parent = open.get(extended) ?? -1
    open.delete(extended)
    if (completion) open.set(extend(beginning, completion), step)
    return parent
  }
}

function numbering(): (key: string) => number {
  const numbers = new Map<string, number>()
  return (key) => {
    const known = numbers.get(key)
    if (known === undefined) numbers.set(key, numbers.size)
    return known ?? numbers.size - 1
  }
}
