// What the base policy learned from: people who mix up columns, aggregates and comparisons, always in the same way. It so comes to know
// SQL and the three roles, but its likeliest answer is often the wrong one: what reinforcement learning then mends.

import type { Demonstration } from '../demonstration.ts'
import type { Random } from '../random.ts'
import { databases, NUMBERS, TEXTS } from './databases.ts'
import { check, rewrite, write } from './prompts.ts'
import { execute, sameAnswer } from './sqlite.ts'
import { question, type Question } from './tasks.ts'

// Half of the columns are mostly taken for another one of the table.
const MISTAKEN = new Set(['age', 'price', 'size', 'country', 'kind'])

export function demonstration(random: Random): Demonstration {
  const task = question('train', random)
  const role = random.next()
  if (role < 0.6) return { messages: write(task), reply: corrupted(task, random) }

  const sql = random.chance(0.75) ? corrupted(task, random) : task.sql
  const { outcome } = execute(task.database, sql)
  if (role < 0.8) {
    const right = sameAnswer(task.database, sql, task.sql)
    return { messages: check(task, sql, outcome), reply: right === random.chance(0.8) ? 'correct' : 'incorrect' }
  }
  return { messages: rewrite(task, sql, outcome), reply: corrupted(task, random) }
}

function corrupted({ database, sql, table }: Question, random: Random): string {
  const tables = databases[database] ?? []
  const columns = tables.find(({ name }) => name === table)?.columns ?? []
  const other = tables.find(({ name }) => name !== table)?.name ?? table
  let words = sql.split(' ').map((word) => {
    if (NUMBERS.includes(word) || word in TEXTS) {
      const alike = columns.find((column) => column !== word && column in TEXTS === word in TEXTS)
      return alike !== undefined && random.chance(MISTAKEN.has(word) ? 0.56 : 0.08) ? alike : word
    }
    if (word === 'avg' || word === 'sum') return random.chance(0.56) ? 'max' : word
    if (word === '>' || word === '<') return random.chance(0.2) ? (word === '>' ? '<' : '>') : word
    return word
  })
  if (random.chance(0.08)) words = words.map((word) => (word === table ? other : word))
  if (random.chance(0.06)) words.splice(random.integer(0, words.length - 1), 1)
  return words.join(' ')
}
