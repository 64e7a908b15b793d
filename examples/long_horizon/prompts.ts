// What the policy is told at a desk, and what it says when it gives up.

import type { Message } from '../demonstration.ts'
import type { Desk } from './warehouse.ts'

export const asked = ({ name }: Desk, item: string) =>
  [
    { role: 'system', content: name },
    { role: 'user', content: `order ${item}` },
  ] satisfies Message[]

/** What it reads where a tool threw. */
export const ERROR = 'error'
export const GIVEN_UP = 'sorry'
