// What the policy is asked, and how it writes a search.

import type { Message } from '../demonstration.ts'
import { toolCall } from '../language.ts'

export const INSTRUCTIONS = 'search then answer'

export const asked = (question: string): Message[] => [
  { role: 'system', content: INSTRUCTIONS },
  { role: 'user', content: question },
]

export const searchCall = (query: string): string => toolCall('search', 'query', query)

export const found = (documents: readonly string[]): Message => ({ role: 'tool', content: documents.join(' ; ') })
