// Who gets there first: the same agents with the same base policy, credited in several ways. What is counted are updates' worth of rollouts,
// those included that one way of giving credit cannot learn from, since they cost the same.

import type { Race } from './experiments.ts'
import { median, picture, type Series } from './report.ts'
import type { Mean, Result } from './seed.ts'

const SUCCESS = 0.8
const WINDOW = 10

/** Updates before the first window whose mean reward is there; infinite where none is. */
export function updatesUntilSuccess(steps: readonly Pick<Mean, 'reward'>[]): number {
  for (let from = 0; from + WINDOW <= steps.length; from++) {
    const total = steps.slice(from, from + WINDOW).reduce((sum, { reward }) => sum + reward, 0)
    if (total / WINDOW >= SUCCESS) return from
  }
  return Infinity
}

/** Updates that the first takes, as a share of those of the second: medians of their seeds. At most that, where the second never got there. */
export const shareOf = ({ results: one }: Series, { results: other }: Series, { most_updates }: Pick<Race, 'most_updates'>): number =>
  middle(one) / Math.min(middle(other), most_updates - WINDOW)

const middle = (results: readonly Result[]): number => median(results.map(({ steps }) => updatesUntilSuccess(steps)))

export function raceTable(race: Race, lanes: readonly Series[]): string {
  const { name, groups, group_size, most_updates, goal } = race
  const first = lanes[0]
  const rows = lanes.map((lane) => {
    const { variant, results } = lane
    const updates = results.map(({ steps }) => shown(updatesUntilSuccess(steps), most_updates))
    const share = first ? shareOf(lane, first, race) : NaN
    const atMost = first && middle(first.results) === Infinity ? '< ' : ''
    return [
      variant,
      `**${shown(middle(results), most_updates)}**`,
      updates.join(', '),
      lane !== first && Number.isFinite(share) ? atMost + share.toFixed(2) : '–',
      results.map(({ train }) => Math.max(0, ...train.map(({ version }) => version))).join(', '),
      median(results.map(({ seconds }) => seconds)).toFixed(0),
    ]
  })
  const head = ['credit', 'updates, median', 'each seed', `against ${first?.variant ?? 'the first'}`, 'versions made', 'seconds, median']
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const failures = lanes.flatMap(({ variant, results }) =>
    results.flatMap(({ seed, failure }) => (failure ? [`- ${variant}, seed ${seed} did not come to its end: ${failure}`] : [])),
  )
  return `## ${name}

Updates of ${groups} groups of ${group_size} rollouts before the first ${WINDOW} in a row of which ${SUCCESS * 100} % succeed; to reach: ${goal.arm} at most ${goal.share} of ${first?.variant ?? ''}.

${[line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')}
${failures.length > 0 ? `\n${failures.join('\n')}\n` : ''}`
}

/** Success by update. */
export function racePicture(race: Race, lanes: readonly Series[]): string {
  const byUpdate = ({ steps, ...result }: Result): Result => ({
    ...result,
    steps,
    train: steps.map((mean, i) => ({ version: i + 1, ...mean })),
  })
  return picture(
    race,
    lanes.map(({ variant, results }) => ({ variant, results: results.map(byUpdate) })),
    'update',
  )
}

const shown = (updates: number, most: number): string => (Number.isFinite(updates) ? String(updates) : `> ${most - WINDOW}`)
