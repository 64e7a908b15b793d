// Nous Research's Hermes form, which Qwen2.5 and Qwen3 were taught as well:
// <tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>, once per call, with text around them.

import { overlap } from '../overlap.ts'
import type { ParsedPiece, ToolParser } from './parser.ts'

const OPEN = '<tool_call>'
const CLOSE = '</tool_call>'

export default {
  name: 'hermes',
  form: (name, args) => [OPEN, '{', '"name"', ':', JSON.stringify(name), ',', '"arguments"', ':', args, '}', CLOSE],
  stream() {
    let waiting = ''
    let inside = false
    const take = (): ParsedPiece[] => {
      const pieces: ParsedPiece[] = []
      for (;;) {
        const tag = inside ? CLOSE : OPEN
        const at = waiting.indexOf(tag)
        if (at < 0) break
        const text = waiting.slice(0, at)
        waiting = waiting.slice(at + tag.length)
        if (inside) pieces.push(readCall(text, CLOSE))
        else if (text !== '') pieces.push({ kind: 'content', text })
        inside = !inside
      }
      const certain = inside ? 0 : waiting.length - overlap(waiting, OPEN)
      if (certain > 0) pieces.push({ kind: 'content', text: waiting.slice(0, certain) })
      waiting = waiting.slice(certain)
      return pieces
    }
    return {
      push(text) {
        waiting += text
        return take()
      },
      end() {
        // Policies often end their answer in place of the closing tag.
        if (inside) return [readCall(waiting, '')]
        return waiting === '' ? [] : [{ kind: 'content', text: waiting }]
      },
    }
  },
} satisfies ToolParser

function readCall(text: string, close: string): ParsedPiece {
  const malformed = (problem: string): ParsedPiece => ({ kind: 'malformed', text: OPEN + text + close, problem })
  let call: unknown
  try {
    call = JSON.parse(text)
  } catch (error) {
    return malformed(`a tool call is no JSON: ${(error as Error).message}`)
  }
  if (!isRecord(call)) return malformed('a tool call is no object')
  if (typeof call.name !== 'string' || call.name === '') return malformed('a tool call has no name')
  if (call.arguments !== undefined && !isRecord(call.arguments)) return malformed('the arguments of a tool call are no object')
  return { kind: 'call', call: { name: call.name, arguments: written(text, call.arguments ?? {}) } }
}

/** The arguments as they stand in the text, where they stand last, as templates write them; else as JSON anew. */
function written(text: string, value: object): string {
  const canonical = JSON.stringify(value)
  const [, last] = /"arguments"\s*:\s*([^]*?)\s*\}\s*$/.exec(text) ?? []
  try {
    return last !== undefined && JSON.stringify(JSON.parse(last)) === canonical ? last : canonical
  } catch {
    return canonical
  }
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
