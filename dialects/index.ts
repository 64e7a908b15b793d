// Every dialect, in the order in which they are tried.

import type { Dialect } from '../data/dialect.ts'

export const dialects: readonly Dialect[] = []
