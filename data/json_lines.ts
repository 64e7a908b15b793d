// Documents of a file that holds one JSON object a line, or a single one over many lines, as far as the file is written yet.

import { parseJson } from './parse_json.ts'
import { Malformed } from './wire.ts'

export interface Part {
  /** Of the part's first byte in the file. */
  readonly offset: number
  readonly bytes: Buffer
  /** Whether the file ends with this part, for now. */
  readonly last: boolean
  /** Whether no larger part will ever come: what cannot be used of it is bad. */
  readonly full: boolean
}

export interface Found {
  /** Bytes that need not come again. */
  readonly used: number
  /** Each with the byte of the file at which it begins. */
  readonly documents: readonly { readonly document: object; readonly at: number }[]
  readonly problems: readonly { readonly problem: string; readonly at: number }[]
}

/** A file whose first line is a lone brace is one document, written for people; any other holds one in each line. */
export function documentsIn(part: Part): Found {
  const lone = part.offset === 0 && /^\s*\{\s*\r?\n/.test(part.bytes.toString('latin1', 0, 100))
  return lone ? oneDocument(part) : lines(part)
}

function oneDocument({ bytes, last, full }: Part): Found {
  const found = { used: bytes.length, documents: [], problems: [] }
  const nothing = { ...found, used: 0 }
  if (!last && !full) return nothing
  try {
    return { ...found, documents: [{ document: parsed(bytes.toString()), at: 0 }] }
  } catch (error) {
    // Somebody may still be writing it.
    const whole = full || /\n\}\s*$/.test(bytes.toString('latin1', Math.max(0, bytes.length - 100)))
    return whole ? { ...found, problems: [{ problem: (error as Error).message, at: 0 }] } : nothing
  }
}

const NEWLINE = 10

function lines({ bytes, offset, last, full }: Part): Found {
  const documents: Found['documents'][number][] = []
  const problems: Found['problems'][number][] = []
  let used = 0
  while (used < bytes.length) {
    const end = bytes.indexOf(NEWLINE, used)
    const line = bytes.toString('utf8', used, end < 0 ? bytes.length : end).trim()
    const at = offset + used
    // The last line may lack its end, because it is being written or for good. Only a whole object ends in a brace and can be read.
    const unsure = end < 0 && !(full && used === 0)
    if (unsure && !(last && line.endsWith('}'))) break
    try {
      if (line !== '') documents.push({ document: parsed(line), at })
    } catch (error) {
      if (unsure) break
      problems.push({ problem: (error as Error).message, at })
    }
    used = end < 0 ? bytes.length : end + 1
  }
  return { used, documents, problems }
}

function parsed(json: string): object {
  const value = parseJson(json)
  if (typeof value !== 'object' || value === null) throw new Malformed('no JSON object')
  return value
}
