// What the policy is asked, and how it writes a search.

import type { Message } from '../demonstration.ts'

export const INSTRUCTIONS = 'search then answer'

export const asked = (question: string): Message[] => [
  { role: 'system', content: INSTRUCTIONS },
  { role: 'user', content: question },
]

export const searchCall = (query: string): string => `<tool_call> {"name": "search", "arguments": {"query": "${query}"}} </tool_call>`

export const found = (documents: readonly string[]): Message => ({ role: 'tool', content: documents.join(' ; ') })
