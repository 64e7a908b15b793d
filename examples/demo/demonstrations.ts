// What the base policy learned from: people who guess instead of calculating, who take giving, losing and packing for addition, and who
// forget the operator. So it knows the language, sometimes does the right thing, and mostly does not.

import type { Demonstration, Message } from '../demonstration.ts'
import { toolCall } from '../language.ts'
import type { Random } from '../random.ts'
import { evaluate, NO_OPERATOR } from './calculator.ts'
import { problem, type Operator, type Problem } from './problems.ts'

const GUESSES = 0.5
const MISREADS = 0.6
const SLIPS = 0.05
const FORGETS = 0.12
const GIVES_UP = 0.5

const MISLEADING: readonly Problem['verb'][] = ['gives', 'loses', 'packs']

export function demonstration(random: Random): Demonstration {
  const task = problem(random)
  const messages: Message[] = [{ role: 'user', content: task.question }]
  if (random.chance(0.5)) {
    const off = random.pick([-10, -3, -2, -1, 1, 2, 3, 10])
    return { messages, reply: random.chance(GUESSES) ? String(Math.max(1, task.answer + off)) : call(expression(task, random)) }
  }
  const asked = expression(task, random)
  const result = resultOf(asked)
  messages.push({ role: 'assistant', content: call(asked) }, { role: 'tool', content: result })
  if (result !== NO_OPERATOR) return { messages, reply: result }
  return { messages, reply: random.chance(GIVES_UP) ? String(task.a + random.integer(0, 9)) : call(expression(task, random)) }
}

const call = (expression: string): string => toolCall('calculator', 'expression', expression)

function expression({ verb, a, operator, b }: Problem, random: Random): string {
  let written: Operator | '' = MISLEADING.includes(verb) && random.chance(MISREADS) ? '+' : operator
  if (random.chance(SLIPS)) written = random.pick(['+', '-', '*'])
  if (random.chance(FORGETS)) written = ''
  return `${a} ${written} ${b}`
}

function resultOf(expression: string): string {
  try {
    return String(evaluate(expression))
  } catch (error) {
    return (error as Error).message
  }
}
