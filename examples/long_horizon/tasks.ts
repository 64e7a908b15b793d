// Orders.

import type { Random } from '../random.ts'
import { ITEMS } from './warehouse.ts'

export interface Order {
  readonly item: string
}

export const order = (_side: 'train' | 'val', random: Random): Order => ({ item: random.pick(ITEMS) })
