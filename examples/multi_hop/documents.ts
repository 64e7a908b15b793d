// A made-up world: 200 films, 200 people, companies, cities and countries, told in one-fact documents, and a search over them. It is as large as
// that so that a policy cannot learn its names by heart: it has to learn to ask about those that the question holds.

import { seeded, type Random } from '../random.ts'

export const FIRST_NAMES = wordsOf('tom ann bob eve sam joe kim lee max ida ben una leo zoe dan amy ray ivy gus mia hal fay ned ada')
export const LAST_NAMES = wordsOf(
  'hale ford reed cole bond wood lane marsh pike dunn nash boyd shaw webb kerr lowe penn ross tate vane york moss gray finch',
)
export const ADJECTIVES = wordsOf(
  'silent red last lost golden dark old blue broken hidden white burning empty frozen green distant secret wild quiet second',
)
export const NOUNS = wordsOf(
  'river house night garden road city king star forest mirror winter letter island bridge harbor train song window desert storm',
)
export const CITIES = wordsOf('lima oslo rome cairo delhi quito paris bonn turin bergen luxor lyon mumbai cusco berlin aswan')
export const COMPANIES = wordsOf('acme globex initech hooli umbra stark wonka tyrell cyberdyne soylent vandelay dunder')
export const COUNTRIES = wordsOf('peru norway italy egypt india france ecuador germany')
export const RELATIONS = ['directed_by', 'starring', 'born_in', 'works_for', 'spouse', 'based_in', 'located_in'] as const
export type Relation = (typeof RELATIONS)[number]

export interface Fact {
  readonly about: string
  readonly relation: Relation
  readonly value: string
}

const FILMS = 200
const PEOPLE = 200
const FOUND_AT_ONCE = 2

const random = seeded(0)
const named = (first: readonly string[], second: readonly string[]) => first.flatMap((a) => second.map((b) => `${a} ${b}`))
export const people = random.shuffle(named(FIRST_NAMES, LAST_NAMES)).slice(0, PEOPLE)
export const films = random.shuffle(named(ADJECTIVES, NOUNS)).slice(0, FILMS)

const facts: readonly Fact[] = random.shuffle(world(random))
const documents: readonly string[] = facts.map(({ about, relation, value }) => `${about} ${relation} ${value}`)

/** What is so, or undefined where nobody wrote it down. */
export const valueOf = (about: string, relation: Relation): string | undefined =>
  facts.find((fact) => fact.about === about && fact.relation === relation)?.value

function world(random: Random): Fact[] {
  const told: Fact[] = []
  const tell = (about: string, relation: Relation, value: string) => told.push({ about, relation, value })
  for (const film of films) {
    tell(film, 'directed_by', random.pick(people))
    tell(film, 'starring', random.pick(people))
  }
  for (const person of people) {
    tell(person, 'born_in', random.pick(CITIES))
    tell(person, 'works_for', random.pick(COMPANIES))
    tell(person, 'spouse', random.pick(people.filter((other) => other !== person)))
  }
  for (const company of COMPANIES) tell(company, 'based_in', random.pick(CITIES))
  for (const city of CITIES) tell(city, 'located_in', random.pick(COUNTRIES))
  return told
}

const inverseFrequency = new Map<string, number>()
for (const word of new Set(documents.flatMap(wordsOf))) {
  const holding = documents.filter((document) => wordsOf(document).includes(word)).length
  inverseFrequency.set(word, Math.log(1 + documents.length / holding))
}
const vectors = documents.map((document) => {
  const weights = new Map(wordsOf(document).map((word) => [word, inverseFrequency.get(word) ?? 0]))
  return { weights, length: Math.hypot(...weights.values()) }
})

/** The two documents nearest to the query by TF-IDF cosine, the nearest first; distractors share its words too. */
export function search(query: string): string[] {
  const asked = wordsOf(query)
  const similarity = vectors.map(({ weights, length }, i) => {
    const dot = asked.reduce((sum, word) => sum + (inverseFrequency.get(word) ?? 0) * (weights.get(word) ?? 0), 0)
    return { document: documents[i] as string, cosine: dot / length }
  })
  return similarity
    .filter(({ cosine }) => cosine > 0)
    .sort((a, b) => b.cosine - a.cosine)
    .slice(0, FOUND_AT_ONCE)
    .map(({ document }) => document)
}

function wordsOf(text: string): string[] {
  return text.split(' ')
}
