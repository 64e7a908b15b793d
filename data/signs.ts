// Which dialects have something to say of a span. Most spans are nobody's, and most dialects know nothing of the others: the keys of a span's
// attributes, its name, its scope's and those of its events tell, and what each of them tells is worked out once.

import type { Dialect, Signs } from './dialect.ts'
import { extentOf, type Extent, type Marks } from './marks.ts'
import { remembered } from './remembered.ts'
import type { Item, Span } from './span.ts'

export interface Asked {
  /** Those of the dialects that may match, and those that may have rewards, in their order. */
  readonly readers: readonly Dialect[]
  readonly carriers: readonly Dialect[]
}

/** Dialects as bits of a word. */
const MOST_DIALECTS = 31
interface Bits {
  readonly readers: number
  readonly carriers: number
}

const NO_SIGNS: Signs = {}

export const askerFor = (dialects: readonly Dialect[]): ((item: Item) => Asked) => knownSigns(dialects).ask

/** How much there is to be read of the span whose bytes these are: all, where any of the dialects may have something to say of it. */
export const extentFinder = (dialects: readonly Dialect[], asked: ReadonlySet<string>): ((payload: Buffer, scope: string) => Extent) => {
  const { marks, isScope } = knownSigns(dialects)
  return (payload, scope) => (isScope(scope) ? 'all' : extentOf(payload, marks, asked))
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
  if (dialects.length > MOST_DIALECTS) throw new Error(`${dialects.length} dialects, where a word has bits for ${MOST_DIALECTS}`)
  const carriers = dialects.filter(({ rewards }) => rewards)
  const all: Asked = { readers: dialects, carriers }
  const meaning = (says: (signs: Signs, text: string) => boolean | undefined) =>
    remembered((text: string): Bits => ({
      readers: bitsOf(dialects.map(({ signs }) => says(signs, text))),
      carriers: bitsOf(carriers.map(({ rewardSigns = NO_SIGNS }) => says(rewardSigns, text))),
    }))
  const ofKey = meaning(({ keys }, key) => keys?.some((sign) => (sign.endsWith('.') ? key.startsWith(sign) : key === sign)))
  const ofName = meaning(({ names }, name) => names?.test(name))
  const ofScope = meaning(({ scopes }, name) => scopes?.test(name))
  const ofEvent = meaning(({ events }, name) => events?.test(name))
  const readersOf = remembered((bits: number) => dialects.filter((_, i) => bits & (1 << i)))
  const carriersOf = remembered((bits: number) => carriers.filter((_, i) => bits & (1 << i)))

  function ask({ name, scope, attributes, events }: Span): Asked {
    const byName = ofName(name)
    const byScope = ofScope(scope.name)
    let readers = byName.readers | byScope.readers
    let carriers = byName.carriers | byScope.carriers
    const add = (bits: Bits) => {
      readers |= bits.readers
      carriers |= bits.carriers
    }
    for (const key in attributes) add(ofKey(key))
    for (const event of events) add(ofEvent(event.name))
    return { readers: readersOf(readers), carriers: carriersOf(carriers) }
  }

  const isSign = (meaningOf: (text: string) => Bits) => (text: string) => {
    const { readers, carriers } = meaningOf(text)
    return (readers | carriers) !== 0
  }
  const marks = { name: isSign(ofName), key: isSign(ofKey), event: isSign(ofEvent) }
  return { ask: (item) => (item.signal === 'log' ? all : ask(item)), marks, isScope: isSign(ofScope) }
}

const bitsOf = (signs: readonly (boolean | undefined)[]): number => signs.reduce((bits, sign, i) => (sign ? bits | (1 << i) : bits), 0)
