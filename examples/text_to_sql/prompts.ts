// What the three roles are asked. They are told apart by the system message alone.

import type { Message } from '../demonstration.ts'
import type { Outcome } from './sqlite.ts'
import type { Question } from './tasks.ts'

type Asked = Pick<Question, 'schema' | 'question'>

export const write = (task: Asked): Message[] => [
  { role: 'system', content: 'write' },
  { role: 'user', content: `${task.schema} : ${task.question}` },
]

export const check = (task: Asked, sql: string, outcome: Outcome): Message[] => [
  { role: 'system', content: 'check' },
  { role: 'user', content: `${task.schema} : ${task.question} : ${sql} : ${outcome}` },
]

export const rewrite = (task: Asked, sql: string, outcome: Outcome): Message[] => [
  { role: 'system', content: 'rewrite' },
  { role: 'user', content: `${task.schema} : ${task.question} : ${sql} : ${outcome}` },
]
