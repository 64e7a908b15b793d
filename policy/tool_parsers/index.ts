import hermes from './hermes.ts'
import type { ToolParser } from './parser.ts'

/** By the name that `tool_parser` takes. */
export const toolParsers: Readonly<Record<string, ToolParser>> = { hermes }
