// The rules of service::pipelines: what they name must exist and fit. Texts are the Collector's.

import type { Signal } from './component.ts'
import type { Unit } from './config.ts'
import type { Note } from './problems.ts'
import { nearMiss } from './schema.ts'
import type { Place } from './tree.ts'
import type { Units } from './units.ts'

export type Role = 'receivers' | 'processors' | 'exporters'

/** One name in a pipeline's list. */
export interface Reference {
  readonly id: string
  readonly at?: Place | undefined
}

/** A pipeline as it is written, before it is known to be sound. */
export type Draft = Readonly<Record<Role, readonly Reference[]>> & {
  readonly id: string
  readonly signal: Signal
  readonly at?: Place | undefined
}

/** The units of every kind; undefined where a section could not be read. */
export interface AllUnits {
  readonly receivers: Units<'receiver'> | undefined
  readonly processors: Units<'processor'> | undefined
  readonly exporters: Units<'exporter'> | undefined
  readonly connectors: Units<'connector'> | undefined
  readonly extensions: Units<'extension'> | undefined
}

type Complain = (message: string, at?: Place) => void

export const ROLES: readonly Role[] = ['receivers', 'processors', 'exporters']

/** Reports every rule that the pipelines break. */
export function checkPipelines(drafts: readonly Draft[], units: AllUnits, extensions: readonly Reference[], report: Note): void {
  for (const draft of drafts) {
    const complain: Complain = (message, at) => report(['service', 'pipelines', draft.id], message, at)
    checkReferences(draft, units, complain)
    checkSignals(draft, units, complain)
  }
  checkConnectors(drafts, units, report)
  checkSoleUsers(drafts, units, extensions, report)
  checkCycles(drafts, units, report)
}

export function checkExtensions(extensions: readonly Reference[], { extensions: units }: AllUnits, report: Note): void {
  for (const { id, at } of extensions) {
    if (!units || units.has(id)) continue
    report(['service', 'extensions'], `references extension "${id}" which is not configured${nearMiss(id, [...units.keys()])}`, at)
  }
}

function checkReferences(draft: Draft, units: AllUnits, complain: Complain): void {
  for (const role of ROLES) {
    const known = idsFor(units, role)
    if (!known) continue
    for (const { id, at } of draft[role]) {
      if (!known.includes(id)) complain(`references ${singular(role)} "${id}" which is not configured${nearMiss(id, known)}`, at)
    }
  }
  const ids = draft.processors.map(({ id }) => id)
  for (const [i, { id, at }] of draft.processors.entries()) {
    if (ids.indexOf(id) < i) complain(`references processor "${id}" multiple times`, at)
  }
}

function checkSignals(draft: Draft, units: AllUnits, complain: Complain): void {
  for (const role of ROLES) {
    for (const { id, at } of draft[role]) {
      const unit = unitOf(units, role, id)
      const signals = unit && signalsOf(unit, role)
      if (signals && !signals.includes(draft.signal)) {
        const given = unit.component.kind === 'connector' && role === 'receivers' ? 'gives' : 'works on'
        complain(`${unit.component.kind} "${id}" ${given} ${signals.join(' and ')}, not ${draft.signal}`, at)
      }
    }
  }
}

function checkConnectors(drafts: readonly Draft[], units: AllUnits, report: Note): void {
  for (const [id, unit] of units.connectors ?? []) {
    for (const role of ['exporters', 'receivers'] as const) {
      if (units[role]?.has(id)) {
        const advice = `Change one of the components' IDs to eliminate ambiguity (e.g. rename "${id}" connector to "${id}/connector")`
        report(['connectors', id], `ambiguous ID: Found both "${id}" ${singular(role)} and "${id}" connector. ${advice}`)
      }
    }
    if (unit) checkSides(drafts, unit, report)
  }
}

/** A connector ends a pipeline of a signal that it takes, and begins one of a signal that it gives. */
function checkSides(drafts: readonly Draft[], unit: Unit<'connector'>, report: Note): void {
  const sides = { exporters: usersOf(drafts, unit, 'exporters'), receivers: usersOf(drafts, unit, 'receivers') }
  for (const [role, other] of [
    ['exporters', 'receivers'],
    ['receivers', 'exporters'],
  ] as const) {
    const [first] = sides[role]
    if (!first || sides[other].length > 0) continue
    const ids = sides[role].map(({ id }) => id).join(' ')
    const message = `connector "${unit.id}" used as ${singular(role)} in [${ids}] pipeline but not used in any supported ${singular(other)} pipeline`
    report(['service', 'pipelines', first.id], message, first[role].find(({ id }) => id === unit.id)?.at)
  }
}

function checkSoleUsers(drafts: readonly Draft[], units: AllUnits, extensions: readonly Reference[], report: Note): void {
  const users = new Map<string, string>()
  for (const [id, unit] of units.connectors ?? []) {
    const option = unit?.component.soleUserOf
    if (!unit || !option || usersOf(drafts, unit, 'exporters').length === 0) continue
    const extension: string | undefined = unit.config[option]
    if (!extensions.some(({ id: listed }) => listed === extension)) continue
    const other = users.get(`${unit.component.type} ${extension}`)
    if (other !== undefined) report(['connectors', id, option], `"${extension}" is used by connector "${other}" already, and only one may`)
    else users.set(`${unit.component.type} ${extension}`, id)
  }
}

/** Finds one way in which items would go round for ever. */
function checkCycles(drafts: readonly Draft[], units: AllUnits, report: Note): void {
  const state = new Map<Draft, 'open' | 'done'>()
  const way: { from: Draft; connector: string }[] = []
  for (const draft of drafts) if (visit(draft)) return

  function visit(draft: Draft): boolean {
    if (state.get(draft) === 'done') return false
    if (state.get(draft) === 'open') {
      reportCycle(way.slice(way.findIndex(({ from }) => from === draft)))
      return true
    }
    state.set(draft, 'open')
    for (const { id } of draft.exporters) {
      const unit = units.connectors?.get(id)
      way.push({ from: draft, connector: id })
      if (unit && usersOf(drafts, unit, 'receivers').some(visit)) return true
      way.pop()
    }
    state.set(draft, 'done')
    return false
  }

  function reportCycle(steps: { from: Draft; connector: string }[]): void {
    const parts = steps.flatMap(({ from, connector }, i) => {
      const into = steps[(i + 1) % steps.length]!.from
      const processors = into.processors.map(({ id }) => `processor "${id}" in pipeline "${into.id}"`)
      return [`connector "${connector}" (${from.signal} to ${into.signal})`, ...processors]
    })
    const { from } = steps[0]!
    report(['service', 'pipelines', from.id], `cycle detected: ${[...parts, parts[0]].join(' -> ')}`, from.at)
  }
}

/** The pipelines that name the connector in this role, with a signal that fits. */
function usersOf(drafts: readonly Draft[], unit: Unit<'connector'>, role: 'receivers' | 'exporters'): Draft[] {
  return drafts.filter((draft) => draft[role].some(({ id }) => id === unit.id) && signalsOf(unit, role).includes(draft.signal))
}

function signalsOf({ component }: Unit, role: Role): readonly Signal[] {
  return (component.kind === 'connector' && role === 'receivers' ? component.to : component.signals) ?? []
}

/** A receiver or an exporter of a pipeline may be a connector. */
export function unitOf(units: AllUnits, role: Role, id: string): Unit | null | undefined {
  return units[role]?.get(id) ?? (role === 'processors' ? undefined : units.connectors?.get(id))
}

/** What a pipeline may name in this role; undefined where a section could not be read. */
function idsFor(units: AllUnits, role: Role): string[] | undefined {
  const [own, connectors] = [units[role], role === 'processors' ? new Map<string, Unit>() : units.connectors]
  return own && connectors && [...own.keys(), ...connectors.keys()]
}

const singular = (role: Role) => role.slice(0, -1)
