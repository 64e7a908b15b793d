// What the base policy learned from: people who do the work of another desk, look at things, write calls that no tool can read, give up, and
// only now and then do what they should.

import type { Demonstration, Message } from '../demonstration.ts'
import { toolCall } from '../language.ts'
import type { Random } from '../random.ts'
import { asked, ERROR, GIVEN_UP } from './prompts.ts'
import { DESKS, ITEMS, LOOK, NOTHING, SEEN, TOOLS, type Desk } from './warehouse.ts'

const MOST_BEFORE = 4
const GIVES_UP = 0.12
const RIGHT = 0.15
const LOOKS = 0.25
/** Where nobody reads an item. */
const UNREADABLE = '?'

export function demonstration(random: Random): Demonstration {
  const [desk, item] = [random.pick(DESKS), random.pick(ITEMS)]
  const messages: Message[] = asked(desk, item)
  for (let before = random.integer(0, MOST_BEFORE); before > 0; before--) {
    const { tool, of } = call(desk, item, random)
    const said = of === UNREADABLE ? ERROR : tool === LOOK && of === item ? `${SEEN} ${item}` : NOTHING
    messages.push({ role: 'assistant', content: toolCall(tool, 'item', of) }, { role: 'tool', content: said })
  }
  if (random.chance(GIVES_UP)) return { messages, reply: GIVEN_UP }
  const { tool, of } = call(desk, item, random)
  return { messages, reply: toolCall(tool, 'item', of) }
}

function call(desk: Desk, item: string, random: Random): { tool: string; of: string } {
  const of = random.chance(0.1) ? UNREADABLE : random.chance(0.1) ? random.pick(ITEMS) : item
  // Mistaken for one's own: the work of the desk after the next.
  const another = DESKS[(DESKS.indexOf(desk) + 2) % DESKS.length] as Desk
  const chosen = random.next()
  if (chosen < RIGHT) return { tool: desk.tool, of }
  if (chosen < RIGHT + LOOKS) return { tool: LOOK, of }
  return { tool: random.chance(0.6) ? another.tool : random.pick(TOOLS), of }
}
