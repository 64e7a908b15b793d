// Questions in words, each with the SQL that answers it. Columns go by other words than in the schema, as people put it.

import { type Random } from '../random.ts'
import { databases, NUMBERS, schemaOf, split, TEXTS, VALUES } from './databases.ts'

export interface Question {
  /** Number of the database. */
  readonly database: number
  readonly schema: string
  readonly question: string
  /** A right answer. Others may give the same rows. */
  readonly sql: string
  readonly table: string
}

export const SYNONYMS: Readonly<Record<string, string>> = {
  age: 'old',
  year: 'date',
  price: 'cost',
  rating: 'score',
  size: 'large',
  name: 'called',
  country: 'nation',
  color: 'hue',
  kind: 'type',
}
export const AGGREGATES: Readonly<Record<string, string>> = { maximum: 'max', minimum: 'min', average: 'avg', total: 'sum' }

const KINDS = ['count', 'list', 'aggregate', 'filter', 'filtered count', 'groups'] as const

/** A new question over one of the databases of that side. */
export function question(side: keyof typeof split, random: Random): Question {
  const database = random.pick(split[side])
  const tables = databases[database] ?? []
  const { name: table, columns } = random.pick(tables)
  const [words, sql] = phrase(table, columns, random)
  return { database, schema: schemaOf(tables), question: words, sql, table }
}

function phrase(table: string, columns: readonly string[], random: Random): [string, string] {
  const numbers = columns.filter((column) => NUMBERS.includes(column))
  const texts = columns.filter((column) => column in TEXTS)
  switch (random.pick(KINDS)) {
    case 'count':
      return [`how many ${table}`, `select count ( * ) from ${table}`]
    case 'list': {
      const column = random.pick(columns)
      return [`list the ${SYNONYMS[column]} of ${table}`, `select ${column} from ${table}`]
    }
    case 'aggregate': {
      const column = random.pick(numbers)
      const word = random.pick(Object.keys(AGGREGATES))
      return [`show the ${word} ${SYNONYMS[column]} of ${table}`, `select ${AGGREGATES[word]} ( ${column} ) from ${table}`]
    }
    case 'filter': {
      const column = random.pick(columns)
      const [words, where] = condition(numbers, texts, random)
      return [`list the ${SYNONYMS[column]} of ${table} ${words}`, `select ${column} from ${table} ${where}`]
    }
    case 'filtered count': {
      const [words, where] = condition(numbers, texts, random)
      return [`how many ${table} ${words}`, `select count ( * ) from ${table} ${where}`]
    }
    case 'groups': {
      const column = random.pick(texts)
      return [`how many ${table} per ${SYNONYMS[column]}`, `select ${column} , count ( * ) from ${table} group by ${column}`]
    }
  }
}

function condition(numbers: readonly string[], texts: readonly string[], random: Random): [string, string] {
  if (random.chance(0.5)) {
    const column = random.pick(numbers)
    const value = random.pick(VALUES)
    const above = random.chance(0.5)
    return [`with ${SYNONYMS[column]} ${above ? 'above' : 'below'} ${value}`, `where ${column} ${above ? '>' : '<'} ${value}`]
  }
  const column = random.pick(texts)
  const value = random.pick(TEXTS[column] ?? [])
  return [`with ${SYNONYMS[column]} equal ${value}`, `where ${column} = '${value}'`]
}
