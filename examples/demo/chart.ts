// How the policy does, version by version, as bars in a terminal.

export interface VersionProgress {
  readonly version: number
  readonly rollouts: number
  /** Share of the rollouts that had the right answer. */
  readonly success: number
}

const WIDTH = 40
const EIGHTHS = ' ▏▎▍▌▋▊▉'

export function barOf({ version, rollouts, success }: VersionProgress): string {
  const eighths = Math.round(success * WIDTH * 8)
  const bar = `${'█'.repeat(Math.floor(eighths / 8))}${EIGHTHS[eighths % 8]!.trim()}`
  return `version ${String(version).padStart(3)} ▕${bar.padEnd(WIDTH)}▏ ${success.toFixed(2)}  ${rollouts} rollouts`
}

const LEVELS = '▁▂▃▄▅▆▇█'

export const sparkline = (shares: readonly number[]): string =>
  shares.map((share) => LEVELS[Math.min(LEVELS.length - 1, Math.floor(share * LEVELS.length))]!).join('')

/** Success of the rollouts of several versions together. */
export function successOf(versions: readonly VersionProgress[]): number {
  const rollouts = versions.reduce((sum, version) => sum + version.rollouts, 0)
  return versions.reduce((sum, version) => sum + version.success * version.rollouts, 0) / Math.max(1, rollouts)
}
