// A warehouse in which an order passes six desks, one after the other. Each has one tool that takes the order on. Every tool may be asked for at
// every desk, and nothing is earned before the order has left.

export interface Desk {
  readonly name: string
  /** The tool that takes an order on from here. */
  readonly tool: string
}

export const DESKS: readonly Desk[] = [
  { name: 'office', tool: 'check' },
  { name: 'stock', tool: 'reserve' },
  { name: 'shelves', tool: 'fetch' },
  { name: 'bench', tool: 'pack' },
  { name: 'printer', tool: 'label' },
  { name: 'gate', tool: 'ship' },
]
/** Always works, and takes nothing on. */
export const LOOK = 'look'
export const TOOLS: readonly string[] = [...DESKS.map(({ tool }) => tool), LOOK]
export const ITEMS = ['lamp', 'chair', 'table', 'clock', 'vase', 'kettle', 'rug', 'mirror']

/** What tools say. */
export const DONE = 'done'
export const NOTHING = 'nothing'
export const SEEN = 'fine'

const WORKS = 0.8

export interface Warehouse {
  /** Throws where the tool cannot be used like that. */
  use(tool: string, item: string): string
  /** How many desks are done with the order. */
  passed(): number
}

/** @param random from 0 to below 1 */
export function openWarehouse(ordered: string, random: () => number): Warehouse {
  let passed = 0
  return {
    passed: () => passed,
    use(tool, item) {
      if (!ITEMS.includes(item)) throw new Error(`there is no item "${item}"`)
      if (item !== ordered) return NOTHING
      if (tool === LOOK) return `${SEEN} ${item}`
      if (tool !== DESKS[passed]?.tool || random() >= WORKS) return NOTHING
      passed++
      return DONE
    },
  }
}
