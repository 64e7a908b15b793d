// The reward curve as SVG: every step, their moving mean, and evaluations. It is read by people, in light and in dark.

import type { Evaluation, TrainingStep } from '../storage/training.ts'

const WIDTH = 720
const HEIGHT = 360
const MARGIN = { left: 52, right: 16, top: 36, bottom: 40 }
/** Steps on either side that the mean is taken over. */
const SMOOTH = 5

type Point = readonly [x: number, y: number]

export function rewardPlot(
  policy: string,
  steps: readonly Pick<TrainingStep, 'step' | 'reward'>[],
  evaluations: readonly Evaluation[],
): string {
  const rewards = steps.map(({ step, reward }): Point => [step, reward])
  const judged = evaluations.map(({ version, reward }): Point => [version, reward])
  const all = [...rewards, ...judged]
  const x = scale([0, Math.max(1, ...all.map(([step]) => step))], [MARGIN.left, WIDTH - MARGIN.right])
  const values = all.map(([, reward]) => reward)
  const y = scale([Math.min(0, ...values), Math.max(1, ...values)], [HEIGHT - MARGIN.bottom, MARGIN.top])
  const at = ([step, reward]: Point) => `${x.place(step).toFixed(1)},${y.place(reward).toFixed(1)}`
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12">
<style>
  text { fill: #444 } .axis { stroke: #ccc } .step { fill: #7aa6d6 } .mean { stroke: #1f5fa8 } .val { stroke: #c2571a; fill: #c2571a }
  @media (prefers-color-scheme: dark) { text { fill: #bbb } .axis { stroke: #555 } .mean { stroke: #7db3ee } .val { stroke: #f0a06a; fill: #f0a06a } }
</style>
<text x="${MARGIN.left}" y="20" font-size="14">${escape(policy)}: reward by step</text>
${ticks(y.domain)
  .map((value) => grid(y.place(value), value))
  .join('\n')}
${ticks(x.domain)
  .map((value) => `<text x="${x.place(value)}" y="${HEIGHT - 16}" text-anchor="middle">${number(value)}</text>`)
  .join('\n')}
${rewards.map((point) => circle('step', at(point), 2)).join('\n')}
<polyline class="mean" fill="none" stroke-width="2" points="${smoothed(rewards).map(at).join(' ')}"/>
<polyline class="val" style="fill: none" stroke-width="2" stroke-dasharray="4 3" points="${judged.map(at).join(' ')}"/>
${judged.map((point) => circle('val', at(point), 3.5)).join('\n')}
<text x="${WIDTH - MARGIN.right}" y="20" text-anchor="end">dots: steps · line: their mean · dashed: evaluation</text>
</svg>
`
}

interface Scale {
  readonly domain: readonly [number, number]
  place(value: number): number
}

function scale(domain: readonly [number, number], [from, to]: readonly [number, number]): Scale {
  return { domain, place: (value) => from + ((value - domain[0]) / (domain[1] - domain[0])) * (to - from) }
}

/** About five round numbers. */
function ticks([from, to]: readonly [number, number]): number[] {
  const rough = (to - from) / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= rough)!
  const first = Math.ceil(from / step)
  return Array.from({ length: Math.floor(to / step) - first + 1 }, (_, i) => (first + i) * step)
}

function smoothed(points: readonly Point[]): Point[] {
  return points.map(([x], i) => {
    const near = points.slice(Math.max(0, i - SMOOTH), i + SMOOTH + 1)
    return [x, near.reduce((sum, [, y]) => sum + y, 0) / near.length]
  })
}

function circle(kind: string, at: string, radius: number): string {
  const [x, y] = at.split(',')
  return `<circle class="${kind}" cx="${x}" cy="${y}" r="${radius}"/>`
}

const grid = (y: number, value: number): string =>
  `<line class="axis" x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${y}" y2="${y}"/>` +
  `<text x="${MARGIN.left - 8}" y="${y + 4}" text-anchor="end">${number(value)}</text>`

const number = (value: number): string => String(Number(value.toPrecision(6)))

const escape = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
