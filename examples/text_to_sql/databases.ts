// Small databases of two tables, made from a seed: 148 to train on, 12 that training never sees.

import { seeded, type Random } from '../random.ts'

export const TABLES = ['singer', 'concert', 'city', 'car', 'student', 'course', 'player', 'team', 'film', 'hotel']
export const NUMBERS = ['age', 'year', 'price', 'rating', 'size']
export const TEXTS: Readonly<Record<string, readonly string[]>> = {
  name: ['ann', 'bob', 'cat', 'dan', 'eve'],
  country: ['peru', 'iran', 'chad'],
  color: ['red', 'blue', 'green'],
  kind: ['x', 'y', 'z'],
}
export const VALUES = ['0', '10', '20', '30', '40', '50', '60', '70', '80', '90']

export interface Table {
  readonly name: string
  readonly columns: readonly string[]
  readonly rows: readonly (readonly (string | number)[])[]
}
export type Database = readonly Table[]

const DATABASES = 160
const TRAINED = 148

export const databases: readonly Database[] = make(seeded(0))

/** Numbers of the databases of each side. */
export const split = {
  train: databases.map((_, i) => i).slice(0, TRAINED),
  val: databases.map((_, i) => i).slice(TRAINED),
}

/** As the prompts say it: `singer ( age name ) | city ( … )`. */
export const schemaOf = (database: Database): string => database.map(({ name, columns }) => `${name} ( ${columns.join(' ')} )`).join(' | ')

function make(random: Random): Database[] {
  return Array.from({ length: DATABASES }, () =>
    random
      .shuffle(TABLES)
      .slice(0, 2)
      .map((name) => {
        const columns = random.shuffle([...random.shuffle(NUMBERS).slice(0, 2), ...random.shuffle(Object.keys(TEXTS)).slice(0, 2)])
        const rows = Array.from({ length: random.integer(5, 9) }, () =>
          columns.map((column) => (TEXTS[column] ? random.pick(TEXTS[column]) : Number(random.pick(VALUES)))),
        )
        return { name, columns, rows }
      }),
  )
}
