// Why an item of a request was refused, in words for who sent it.

export interface Rejected {
  readonly reason: string
}

/** So many rejected items get a reason that names them; the rest share one per cause. */
export const NAMED = 20
const LONGEST_NAME = 80

/** @param number of the item in its request, from 1 */
export function named(signal: 'traces' | 'logs', number: number, name: Buffer, problem: string): Rejected {
  const item = signal === 'traces' ? 'span' : 'log record'
  return { reason: `${item} ${number} (${JSON.stringify(name.toString('utf8', 0, LONGEST_NAME))}): ${problem}` }
}

const reasons = new Map<string, Rejected>()
export function unnamed(problem: string): Rejected {
  const known = reasons.get(problem) ?? { reason: problem }
  reasons.set(problem, known)
  return known
}
