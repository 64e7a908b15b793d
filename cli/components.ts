// Lists what a configuration can name, in the form of the Collector's command of that name.

import { stringify } from 'yaml'

import type { Component } from '../pipeline/component.ts'
import { command } from './flags.ts'
import { registry } from './registry.ts'
import { packageVersion } from './version.ts'

/** How far everything in a 0.x release is. */
const STABILITY = 'Alpha'

const HELP = `Lists the components that a configuration can name, as YAML.

Usage:
  leyden components

Example:
  leyden components | grep name:
`

export const components = command({
  help: HELP,
  flags: {},
  async run(_flags, io) {
    const buildinfo = { command: 'leyden', description: 'Traces of agents in, transitions in ClickHouse out', version: packageVersion }
    const kinds = Object.entries(registry).map(([kind, list]) => [kind, list.map((component: Component) => entry(kind, component))])
    io.stdout(stringify({ buildinfo, ...Object.fromEntries(kinds), providers: ['env', 'file', 'yaml'] }, { indent: 4, lineWidth: 0 }))
    return 0
  },
})

function entry(kind: string, { type, summary, kind: singular, signals, to, aliases = [] }: Component) {
  const pairs = to ? signals.flatMap((from) => to.map((into) => `${from}-to-${into}`)) : singular === 'extension' ? ['extension'] : signals
  return {
    name: type,
    ...(aliases.length > 0 && { aliases }),
    module: `leyden/${kind}/${type} v${packageVersion}`,
    summary,
    stability: Object.fromEntries(pairs.map((pair) => [pair, STABILITY])),
  }
}
