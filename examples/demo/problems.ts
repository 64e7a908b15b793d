// Word problems of one operation.

import type { Random } from '../random.ts'

export type Operator = '+' | '-' | '*'

export interface Problem {
  readonly question: string
  /** What a person does with the second number; a few mislead. */
  readonly verb: keyof typeof OPERATORS
  readonly a: number
  readonly operator: Operator
  readonly b: number
  readonly answer: number
}

const OPERATORS = { buys: '+', finds: '+', gets: '+', gives: '-', loses: '-', eats: '-', packs: '*' } as const
const VERBS = Object.keys(OPERATORS) as (keyof typeof OPERATORS)[]
const NAMES = ['Tom', 'Ann', 'Bob', 'Eve']
const THINGS = ['apples', 'nuts', 'plums', 'pears']

/** Every word that a question may hold. */
export const WORDS = [...NAMES, ...THINGS, ...VERBS, ...'has bags of and . How many now ?'.split(' ')]

export function problem(random: Random): Problem {
  for (;;) {
    const [name, things, verb] = [random.pick(NAMES), random.pick(THINGS), random.pick(VERBS)]
    const operator = OPERATORS[verb]
    const times = operator === '*'
    const [a, b] = times ? [random.integer(3, 30), random.integer(2, 9)] : [random.integer(10, 60), random.integer(2, 40)]
    const answer = calculate(a, operator, b)
    if (answer <= 0) continue
    const told = times ? `packs ${a} bags of ${b} ${things}` : `has ${a} ${things} and ${verb} ${b}`
    return { question: `${name} ${told} . How many now ?`, verb, a, operator, b, answer }
  }
}

export function calculate(a: number, operator: Operator, b: number): number {
  return operator === '+' ? a + b : operator === '-' ? a - b : a * b
}
