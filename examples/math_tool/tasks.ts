// Word problems of one or two operations. A fifth of them, by a hash of their numbers, are asked in validation only.

import type { Random } from '../random.ts'

export type Operator = '+' | '-' | '*'
export interface Step {
  readonly verb: keyof typeof OPERATORS
  readonly operator: Operator
  readonly by: number
}
export interface Problem {
  readonly question: string
  readonly start: number
  readonly steps: readonly Step[]
  readonly answer: number
}

const OPERATORS = { buys: '+', finds: '+', gives: '-', loses: '-', boxes: '*' } as const
const VERBS = Object.keys(OPERATORS) as (keyof typeof OPERATORS)[]
const NAMES = ['tom', 'ann', 'bob']
const THINGS = ['apples', 'pens', 'coins']

export function problem(side: 'train' | 'val', random: Random): Problem {
  for (;;) {
    const start = random.integer(10, 60)
    const steps = Array.from({ length: random.pick([1, 2, 2]) }, (): Step => {
      const verb = random.pick(VERBS)
      return { verb, operator: OPERATORS[verb], by: verb === 'boxes' ? random.integer(2, 9) : random.integer(3, 40) }
    })
    const [name, things] = [random.pick(NAMES), random.pick(THINGS)]
    const values = steps.reduce((all, { operator, by }) => [...all, calculate(all.at(-1) ?? 0, operator, by)], [start])
    const possible = values.every((value) => value > 0 && value <= 999)
    const validation = (start + steps.reduce((sum, { by }) => sum + by, 0)) % 5 === 0
    if (!possible || validation !== (side === 'val')) continue
    const told = steps.map(({ verb, by }) => (verb === 'boxes' ? `then ${by} boxes of each` : `then ${verb} ${by} more`))
    return { question: `${name} has ${start} ${things} ${told.join(' ')} . how many now ?`, start, steps, answer: values.at(-1) ?? 0 }
  }
}

export function calculate(a: number, operator: Operator, b: number): number {
  return operator === '+' ? a + b : operator === '-' ? a - b : a * b
}
