// Options that name an extension, such as `auth::authenticator`: it must be configured, fit for that, and run.

import type { Note } from './problems.ts'
import { ROLES, unitOf, type AllUnits, type Draft, type Reference } from './rules.ts'
import { isRecord, nearMiss, type Fields, type Role } from './schema.ts'

/** Looks at the components that a pipeline uses. `listed`: what service::extensions says. */
export function checkNamedExtensions(drafts: readonly Draft[], units: AllUnits, listed: readonly Reference[], report: Note): void {
  const extensions = units.extensions
  if (!extensions) return
  for (const section of ['receivers', 'processors', 'exporters', 'connectors'] as const) {
    for (const [id, unit] of units[section] ?? []) {
      const isUsed = drafts.some((draft) =>
        ROLES.some((role) => draft[role].some((named) => named.id === id) && unitOf(units, role, id) === unit),
      )
      if (!unit || !isUsed) continue
      for (const named of namedExtensions(unit.component.config, unit.config, [section, id])) {
        const reason = whyNot(named)
        if (reason !== undefined) report(named.path, reason)
      }
    }
  }

  function whyNot({ id, role }: Named): string | undefined {
    if (!extensions!.has(id)) return `references extension "${id}" which is not configured${nearMiss(id, [...extensions!.keys()])}`
    const component = extensions!.get(id)?.component
    if (component && component.role !== role) return `extension "${id}" is no ${role}`
    return listed.some((one) => one.id === id) ? undefined : `references extension "${id}" which service::extensions does not list`
  }
}

interface Named {
  readonly path: readonly string[]
  readonly id: string
  readonly role: Role
}

function* namedExtensions(fields: Fields, config: unknown, path: readonly string[]): Generator<Named> {
  if (!isRecord(config)) return
  for (const [key, field] of Object.entries(fields)) {
    const value = config[key]
    if (field.extension && typeof value === 'string') yield { path: [...path, key], id: value, role: field.extension }
    if (field.fields) yield* namedExtensions(field.fields, value, [...path, key])
  }
}
