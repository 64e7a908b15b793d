// Which dialects have something to say of a span. Most spans are nobody's, and most dialects know nothing of the others: the keys of a span's
// attributes, its name, its scope's and those of its events tell, and what each of them tells is worked out once.

import type { Dialect, Signs } from './dialect.ts'
import { extentFinder, type Extent, type Marks } from './marks.ts'
import { remembered } from './remembered.ts'
import type { Item, Span } from './span.ts'

export interface Asked {
  /** Those of the dialects that may match, and those that may have rewards, in their order. */
  readonly readers: readonly Dialect[]
  readonly carriers: readonly Dialect[]
}

/** Bits of a word: one for each dialect that may match, then one for each that may have rewards. */
const MOST_BITS = 31

const NO_SIGNS: Signs = {}

export const askerFor = (dialects: readonly Dialect[]): ((item: Item) => Asked) => knownSigns(dialects).ask

/** How much there is to be read of the span whose bytes these are: all, where any of the dialects may have something to say of it. */
export const extentReader = (dialects: readonly Dialect[], asked: ReadonlySet<string>): ((payload: Buffer, scope: string) => Extent) => {
  const { marks, isScope } = knownSigns(dialects)
  const extentOf = extentFinder(marks, asked)
  return (payload, scope) => (isScope(scope) ? 'all' : extentOf(payload))
}

interface SignsOfAll {
  ask(item: Item): Asked
  readonly marks: Marks
  isScope(name: string): boolean
}

/** As they were worked out for these dialects before. */
function knownSigns(dialects: readonly Dialect[]): SignsOfAll {
  let signs = known.get(dialects)
  if (!signs) known.set(dialects, (signs = workOut(dialects)))
  return signs
}

const known = new WeakMap<readonly Dialect[], SignsOfAll>()

function workOut(dialects: readonly Dialect[]): SignsOfAll {
  const carriers = dialects.filter(({ rewards }) => rewards)
  const count = dialects.length + carriers.length
  if (count > MOST_BITS) throw new Error(`dialects need ${count} bits, where a word has ${MOST_BITS}`)
  const all: Asked = { readers: dialects, carriers }
  const signs = [...dialects.map((dialect) => dialect.signs), ...carriers.map(({ rewardSigns = NO_SIGNS }) => rewardSigns)]
  const meaning = (says: (signs: Signs, text: string) => boolean | undefined) =>
    remembered((text: string) => bitsOf(signs.map((one) => says(one, text))))
  const ofKey = meaning(({ keys }, key) => keys?.some((sign) => (sign.endsWith('.') ? key.startsWith(sign) : key === sign)))
  const ofName = meaning(({ names }, name) => names?.test(name))
  const ofScope = meaning(({ scopes }, name) => scopes?.test(name))
  const ofEvent = meaning(({ events }, name) => events?.test(name))
  const askedBy = remembered((bits: number): Asked => {
    const isSet = (bit: number) => (bits & (1 << bit)) !== 0
    return { readers: dialects.filter((_, i) => isSet(i)), carriers: carriers.filter((_, i) => isSet(dialects.length + i)) }
  })

  function ask({ name, scope, attributes, events }: Span): Asked {
    let bits = ofName(name) | ofScope(scope.name)
    for (const key in attributes) bits |= ofKey(key)
    for (const event of events) bits |= ofEvent(event.name)
    return askedBy(bits)
  }

  const isSign = (meaningOf: (text: string) => number) => (text: string) => meaningOf(text) !== 0
  const marks = { name: isSign(ofName), key: isSign(ofKey), event: isSign(ofEvent) }
  return { ask: (item) => (item.signal === 'log' ? all : ask(item)), marks, isScope: isSign(ofScope) }
}

const bitsOf = (signs: readonly (boolean | undefined)[]): number => signs.reduce((bits, sign, i) => (sign ? bits | (1 << i) : bits), 0)
