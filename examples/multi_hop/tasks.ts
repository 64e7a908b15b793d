// Questions that take two facts. A third of the films and people are asked about in validation only.

import type { Random } from '../random.ts'
import { films, people, valueOf, type Relation } from './documents.ts'

export interface Question {
  readonly question: string
  /** Whom or what it asks about, what stands between, and the relations that lead there. */
  readonly about: string
  readonly first: Relation
  readonly between: string
  readonly second: Relation
  readonly answer: string
}

interface Template {
  readonly words: string
  readonly of: 'film' | 'person'
  readonly first: Relation
  readonly second: Relation
}

const TEMPLATES: readonly Template[] = [
  { words: 'where was the director of … born ?', of: 'film', first: 'directed_by', second: 'born_in' },
  { words: 'where was the star of … born ?', of: 'film', first: 'starring', second: 'born_in' },
  { words: 'who is the spouse of the director of … ?', of: 'film', first: 'directed_by', second: 'spouse' },
  { words: 'who is the spouse of the star of … ?', of: 'film', first: 'starring', second: 'spouse' },
  { words: 'which company employs the star of … ?', of: 'film', first: 'starring', second: 'works_for' },
  { words: 'which country is the birth city of … in ?', of: 'person', first: 'born_in', second: 'located_in' },
  { words: 'where is the employer of … ?', of: 'person', first: 'works_for', second: 'based_in' },
]
const TRAINED_SHARE = 0.7

const sides = (all: readonly string[]) => {
  const trained = Math.floor(all.length * TRAINED_SHARE)
  return { train: all.slice(0, trained), val: all.slice(trained) }
}
const askedAbout = { film: sides(films), person: sides(people) }

export function question(side: 'train' | 'val', random: Random): Question {
  const { words, of, first, second } = random.pick(TEMPLATES)
  const about = random.pick(askedAbout[of][side])
  const between = valueOf(about, first) ?? ''
  return { question: words.replace('…', about), about, first, between, second, answer: valueOf(between, second) ?? '' }
}
