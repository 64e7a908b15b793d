// What came out, as a table and as a picture: every seed, and their median. No seed is left out.

import type { Experiment, Subject } from './experiments.ts'
import type { Mean, Point, Result } from './seed.ts'

export interface Series {
  /** What was changed; '' for the experiment as it is. */
  readonly variant: string
  readonly results: readonly Result[]
}

export function markdown({ name, goal }: Experiment, series: readonly Series[]): string {
  const rows = series.map(({ variant, results }) => {
    const [bases, trained] = [results.map(base), results.map(last)]
    const ended = results.filter(({ failure }) => failure === undefined)
    return [
      variant || name,
      shown(median(bases)),
      `**${shown(median(trained))}**`,
      trained.map(shown).join(', '),
      `${mean(ended.map(({ train }) => train.length)).toFixed(0)}`,
      `${(mean(ended.map(({ tokens }) => tokens)) / 1e6).toFixed(2)} M`,
      `${mean(ended.map(({ updating }) => updating)).toFixed(0)} s`,
      attempts(results),
      `${mean(ended.map(({ seconds }) => seconds)).toFixed(0)} s`,
    ]
  })
  const head = ['', 'base', 'trained, median', 'each seed', 'versions', 'tokens trained on', 'updates', 'rollouts', 'wall time a seed']
  const failures = series.flatMap(({ variant, results }) =>
    results.flatMap(({ seed, failure }) => (failure ? [`- ${variant || name}, seed ${seed} did not come to its end: ${failure}`] : [])),
  )
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return `## ${name}

Greedy reward on held-out tasks; to reach: at least ${goal.trained} from a base of at most ${goal.base}.

${[line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')}
${failures.length > 0 ? `\n${failures.join('\n')}\n` : ''}`
}

const base = ({ evaluations }: Result): number => evaluations[0]?.reward ?? NaN
export const last = ({ evaluations }: Result): number => evaluations.at(-1)?.reward ?? NaN
export const baseOf = base

/** All rollouts of training, and how many of them did not end with a score. */
function attempts(results: readonly Result[]): string {
  const endings = new Map<string, number>()
  for (const [ending, count] of results.flatMap((result) => Object.entries(result.endings)))
    endings.set(ending, (endings.get(ending) ?? 0) + count)
  const all = [...endings.values()].reduce((sum, count) => sum + count, 0)
  endings.delete('succeeded')
  return [all.toLocaleString('en'), ...[...endings].map(([ending, count]) => `${count} ${ending}`)].join(', ')
}

/** What is not known counts as the worst. */
export function median(values: readonly number[]): number {
  const sorted = values.map((value) => (Number.isNaN(value) ? -Infinity : value)).toSorted((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length

/** Mean reward of the first half of the steps, and of the second: each rollout counts once. */
export function halves(steps: readonly Mean[]): [number, number] {
  const half = Math.floor(steps.length / 2)
  const average = (some: readonly Mean[]) => {
    const rollouts = some.reduce((sum, step) => sum + step.rollouts, 0)
    return some.reduce((sum, step) => sum + step.reward * step.rollouts, 0) / rollouts
  }
  return [average(steps.slice(0, half)), average(steps.slice(half))]
}

const shown = (value: number): string => (Number.isFinite(value) ? value.toFixed(2) : '–')

const WIDTH = 720
const HEIGHT = 360
const LEFT = 48
const RIGHT = 16
const TOP = 36
const BOTTOM = 40
const COLORS = ['#1f6fb5', '#c2571a', '#3b8f4a', '#8a4fb0', '#b0873a']
/** Versions on either side over which a curve is evened out. */
const NEAR = 2

/** Mean training reward by version, or whatever else is counted: thin, each seed; thick, their median. Circles: greedy evaluation. */
export function picture({ name }: Subject, series: readonly Series[], counted = 'version'): string {
  const points = series.flatMap(({ results }) => results.flatMap(({ train, evaluations }) => [...train, ...evaluations]))
  const versions = Math.max(1, ...points.map(({ version }) => version))
  const x = (version: number) => LEFT + (version / versions) * (WIDTH - LEFT - RIGHT)
  const y = (reward: number) => HEIGHT - BOTTOM - reward * (HEIGHT - TOP - BOTTOM)
  const at = ({ version, reward }: Pick<Point, 'version' | 'reward'>) => `${x(version).toFixed(1)},${y(reward).toFixed(1)}`
  const curve = (points: readonly Pick<Point, 'version' | 'reward'>[], width: number, color: string, opacity: number) =>
    `<polyline points="${points.map(at).join(' ')}" fill="none" stroke="${color}" stroke-width="${width}" opacity="${opacity}"/>`

  const evaluated = series.some(({ results }) => results.some(({ evaluations }) => evaluations.length > 0))

  const curves = series.flatMap(({ variant, results }, i) => {
    const color = COLORS[i % COLORS.length]!
    const smooth = results.map(({ train }) => even(train))
    const label = `<text x="${LEFT + 8}" y="${TOP + 16 * (i + 1)}" style="fill: ${color}">${variant || name}</text>`
    const circles = results.flatMap(({ evaluations }) => evaluations).map((point) => circle(at(point), color))
    return [...smooth.map((points) => curve(points, 1, color, 0.35)), curve(medians(smooth), 2.5, color, 1), ...circles, label]
  })
  const grid = [0, 0.25, 0.5, 0.75, 1].map(
    (value) =>
      `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}" class="grid"/>` +
      `<text x="${LEFT - 6}" y="${y(value) + 4}" text-anchor="end">${value}</text>`,
  )
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12">
<style>
  text { fill: #444 } .grid { stroke: #ddd }
  @media (prefers-color-scheme: dark) { text { fill: #bbb } .grid { stroke: #444 } }
</style>
<text x="${LEFT}" y="20" font-size="14">${name}: reward by ${counted}</text>
<text x="${WIDTH - RIGHT}" y="20" text-anchor="end">thin: each seed · thick: median${evaluated ? ' · circles: held-out, greedy' : ''}</text>
${[...grid, ...curves].join('\n')}
<text x="${LEFT}" y="${HEIGHT - 12}">${counted} 0</text>
<text x="${WIDTH - RIGHT}" y="${HEIGHT - 12}" text-anchor="end">${counted} ${versions}</text>
</svg>
`
}

function circle(place: string, color: string): string {
  const [cx, cy] = place.split(',')
  return `<circle cx="${cx}" cy="${cy}" r="3.5" fill="none" stroke="${color}" stroke-width="1.5"/>`
}

function even(points: readonly Point[]): Point[] {
  return points.map((point, i) => ({
    ...point,
    reward: mean(points.slice(Math.max(0, i - NEAR), i + NEAR + 1).map(({ reward }) => reward)),
  }))
}

/** As far as most of the curves go; one that ended before counts with its last reward. */
function medians(curves: readonly (readonly Point[])[]): Pick<Point, 'version' | 'reward'>[] {
  const versions = [...new Set(curves.flatMap((points) => points.map(({ version }) => version)))].toSorted((a, b) => a - b)
  const going = (version: number) => curves.filter((points) => (points.at(-1)?.version ?? 0) >= version).length
  return versions
    .filter((version) => going(version) * 2 > curves.length)
    .map((version) => {
      const rewards = curves.flatMap((points) => points.findLast((point) => point.version <= version)?.reward ?? [])
      return { version, reward: median(rewards) }
    })
}
