// Globs on names: `*`, `?`, `[a-z]`, `{a,b}` and `!(…)`. `*` passes over slashes and dots, and case does not matter.

import picomatch from 'picomatch'

/** Whether a name matches any of the patterns; without patterns every name does. */
export function globs(patterns: readonly string[]): (name: string) => boolean {
  return patterns.length === 0 ? () => true : picomatch([...patterns], { bash: true, dot: true, nocase: true })
}
