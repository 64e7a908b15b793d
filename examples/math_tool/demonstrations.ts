// What the base policy learned from: people who take loss and multiplication for addition, guess instead of calculating, and write calls
// that the calculator cannot read.

import type { Demonstration, Message } from '../demonstration.ts'
import { toolCall } from '../language.ts'
import type { Random } from '../random.ts'
import { calculate, problem, type Operator, type Step } from './tasks.ts'

export const INSTRUCTIONS = 'calculate then answer'

export function demonstration(random: Random): Demonstration {
  const { question, start, steps } = problem('train', random)
  const messages: Message[] = [
    { role: 'system', content: INSTRUCTIONS },
    { role: 'user', content: question },
  ]
  let value = start
  let done = 0
  for (const step of steps.slice(0, random.integer(0, steps.length))) {
    const expression = random.chance(0.5) ? written(value, step, random) : `${value} ${step.operator} ${step.by}`
    const result = evaluate(expression)
    messages.push({ role: 'assistant', content: call(expression) }, { role: 'tool', content: result === null ? 'error' : String(result) })
    if (result === null) break
    value = result
    done++
  }

  const next = steps[done]
  const last = steps.at(-1)
  if (next === undefined) return { messages, reply: last && random.chance(0.15) ? call(written(value, last, random)) : answer(value) }
  if (random.chance(done === 0 ? 0.42 : 0.35))
    return { messages, reply: answer(done === 0 ? Math.max(1, value + random.integer(-9, 30)) : value) }
  return { messages, reply: call(written(value, next, random)) }
}

const call = (expression: string): string => toolCall('calculate', 'expression', expression)

const answer = (value: number): string => `answer ${value}`

/** The expression as one of them would write it. */
function written(value: number, { verb, operator, by }: Step, random: Random): string {
  let used: Operator = (verb === 'loses' || verb === 'boxes') && random.chance(0.6) ? '+' : operator
  if (random.chance(0.08)) used = random.pick(['+', '-', '*'])
  return random.chance(0.1) ? `${value} ${by}` : `${value} ${used} ${by}`
}

/** As the agent's calculator reads it; null where it cannot. */
function evaluate(expression: string): number | null {
  const [, a, operator, b] = /^(\d+) ([+*-]) (\d+)$/.exec(expression) ?? []
  const value = operator === undefined ? -1 : calculate(Number(a), operator as Operator, Number(b))
  return value >= 0 && value <= 9999 ? value : null
}
