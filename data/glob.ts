// Globs on names: `*`, `?`, `[a-z]`, `{a,b}` and `!(…)`. `*` passes over slashes and dots, and case does not matter.

import picomatch from 'picomatch'

/** Whether a name matches any of the patterns; without patterns every name does. */
export function globs(patterns: readonly string[]): (name: string) => boolean {
  if (patterns.length === 0) return () => true
  if (!patterns.every((pattern) => PLAIN.test(pattern))) return picomatch([...patterns], { bash: true, dot: true, nocase: true })
  const names = new Set(patterns.map((pattern) => pattern.toLowerCase()))
  return (name) => names.has(name.toLowerCase())
}

/** It stands for itself. */
const PLAIN = /^\w[\w-]*$/
