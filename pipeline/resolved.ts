// The configuration as it is understood: every default filled in, and secrets hidden unless they are asked for.

import type { Plan, Unit } from './config.ts'
import { withoutPasswords } from './secrets.ts'
import { formatDuration, isRecord, type Field, type Fields } from './schema.ts'
import { serviceFields } from './service.ts'

/** A plan as plain data that, written as YAML, loads to the same plan (with `secrets: 'shown'`). */
export function resolved(plan: Plan, secrets: 'hidden' | 'shown'): Record<string, unknown> {
  return {
    receivers: section(plan.receivers),
    processors: section(plan.processors),
    exporters: section(plan.exporters),
    connectors: section(plan.connectors),
    extensions: section(plan.extensions),
    service: options(serviceFields, {
      ...plan.service,
      pipelines: Object.fromEntries(
        plan.service.pipelines.map(({ id, receivers, processors, exporters }) => [id, { receivers, processors, exporters }]),
      ),
    }),
  }

  function section(units: ReadonlyMap<string, Unit>): Record<string, unknown> {
    return Object.fromEntries([...units].map(([id, { component, config }]) => [id, options(component.config, config)]))
  }

  /** A group that is off is left out: its key alone would switch it on. */
  function options(fields: Fields, config: unknown): Record<string, unknown> {
    const values = isRecord(config) ? config : {}
    const given = Object.entries(fields).filter(([key, { type }]) => type !== 'group' || values[key] !== null)
    return Object.fromEntries(given.map(([key, field]) => [key, written(field, values[key])]))
  }

  /** A value as it would be written in YAML. */
  function written(field: Field<unknown>, value: unknown): unknown {
    const { type, items, fields } = field
    if (value === null || value === undefined) return null
    if (typeof value === 'string' && secrets === 'hidden') return field.secret && value !== '' ? '[REDACTED]' : withoutPasswords(value)
    if (type === 'duration') return formatDuration(Number(value))
    if (fields) return options(fields, value)
    if (items && Array.isArray(value)) return value.map((item) => written(items, item))
    if (items && isRecord(value)) return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, written(items, item)]))
    return value
  }
}
