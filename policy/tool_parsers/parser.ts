// What a tool parser is: it finds, in the text that a policy writes, the tool calls that an agent is to see.

import type { FormPart } from '../decoding.ts'

interface ParsedCall {
  readonly name: string
  /** JSON, letter by letter as the policy wrote it, so that the next prompt goes on from the same tokens. */
  readonly arguments: string
}

export type ParsedPiece =
  | { readonly kind: 'content'; readonly text: string }
  | { readonly kind: 'call'; readonly call: ParsedCall }
  /** Looks like a call and is none; it stays in the answer as text. */
  | { readonly kind: 'malformed'; readonly text: string; readonly problem: string }

export interface ToolStream {
  /** What is certain by now. Text that may still be the beginning of a call is held back. */
  push(text: string): ParsedPiece[]
  end(): ParsedPiece[]
}

export interface ToolParser {
  readonly name: string
  /** How a call is written, in parts between which there may be blanks. */
  form(name: string, args: FormPart): readonly FormPart[]
  stream(): ToolStream
}
