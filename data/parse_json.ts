// JSON.parse for what strangers send: 64-bit integers stay exact, and a document that would take all memory is refused.

import { Malformed } from './wire.ts'

/** JSON.parse, except that an integer too long for a double arrives as its digits in a string. Throws Malformed. */
export function parseJson(text: string): unknown {
  if (text.length > 2 * MOST_PARTS) countParts(text)
  try {
    return JSON.parse(LONG_INTEGER.test(text) ? quoteLongIntegers(text) : text)
  } catch (error) {
    throw new Malformed(`not JSON: ${(error as Error).message}`)
  }
}

/** Objects and arrays of one document. Three bytes of it are fifty in memory, and minutes of collecting garbage where there are too many. */
const MOST_PARTS = 1 << 22

/** Counts inside strings too, of which no text has so many. */
function countParts(text: string): void {
  let parts = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if ((code === BRACE || code === BRACKET) && ++parts > MOST_PARTS) throw new Malformed(`more than ${MOST_PARTS} objects and arrays`)
  }
}
const BRACE = 0x7b
const BRACKET = 0x5b

/** Matches inside strings too; only then is the slower way taken for nothing. */
const LONG_INTEGER = /[[:,]\s*-?\d{16}/

const quoteLongIntegers = (text: string): string => replaceNumbers(text, (number) => (/^-?\d{16,}$/.test(number) ? `"${number}"` : number))

/** The JSON text with other text for its numbers. */
export function replaceNumbers(text: string, put: (number: string) => string): string {
  const token = /"|-?\d[\d.eE+-]*/g
  let replaced = ''
  let copied = 0
  for (let match = token.exec(text); match !== null; match = token.exec(text)) {
    const [found] = match
    if (found === '"') {
      token.lastIndex = endOfString(text, match.index)
      continue
    }
    const other = put(found)
    if (other === found) continue
    replaced += text.slice(copied, match.index) + other
    copied = token.lastIndex
  }
  return replaced + text.slice(copied)
}

function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text[end - 1 - backslashes] === '\\') backslashes++
    if (backslashes % 2 === 0) return end + 1
  }
  return text.length
}
