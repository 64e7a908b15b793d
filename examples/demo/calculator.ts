// The agent's tool. It is strict, as tools are: a policy that writes no operator gets an error to learn from.

import type OpenAI from 'openai'

import { calculate, type Operator } from './problems.ts'

export const NO_OPERATOR = 'error'

/** The policy spells digit by digit. @throws RangeError where the expression is none of two numbers and an operator */
export function evaluate(expression: string): number {
  const [, a, operator, b] = /^(\d+)([+*-])(\d+)$/.exec(expression.replaceAll(' ', '')) ?? []
  if (operator === undefined) throw new RangeError(NO_OPERATOR)
  return calculate(Number(a), operator as Operator, Number(b))
}

export const calculator: OpenAI.Chat.ChatCompletionTool = {
  type: 'function',
  function: {
    name: 'calculator',
    description: 'Calculates, for example 34 - 12.',
    parameters: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
  },
}
