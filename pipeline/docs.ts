// The reference page of a component, made from its definition.

import { stringify } from 'yaml'

import type { Component } from './component.ts'
import { isRecord, type Field, type Fields } from './schema.ts'

export function componentPage(component: Component): string {
  const { kind, type, summary, aliases = [], config } = component
  const rows = Object.entries(config as Fields).flatMap(([key, field]) => optionRows(key, field))
  const table = ['| option | value | default | meaning |', '| --- | --- | --- | --- |', ...rows]
  return paragraphs(
    `# ${type} ${kind}`,
    summary,
    standsIn(component),
    aliases.length > 0 && `Old names that still work, with a warning: ${aliases.map(code).join(', ')}.`,
    '## Options',
    rows.length > 0 ? table.join('\n') : 'None.',
    '## Example',
    `\`\`\`yaml\n${exampleYaml(component)}\`\`\``,
  )
}

/** The component's section of a pipeline.yaml: required options, and the others at their defaults. Nested groups are left to the table. */
export function exampleYaml({ kind, type, config }: Component): string {
  return stringify({ [`${kind}s`]: { [type]: example(config, {}) } })
}

function standsIn({ kind, signals, to = [] }: Component): string {
  if (kind === 'extension') return 'Runs when `service::extensions` names it.'
  const names = (list: readonly string[]) => list.map(code).join(' and ')
  return kind === 'connector'
    ? `Ends pipelines of ${names(signals)}; begins pipelines of ${names(to)}.`
    : `Stands in pipelines of ${names(signals)}.`
}

function optionRows(path: string, field: Field<unknown>): string[] {
  const { doc, secret, aliases = [], items = field } = field
  const expects = field.expects.replace(' such as 200ms, 5s or 1h30m', '')
  const renamed = aliases.length > 0 ? ` Old names: ${aliases.map(code).join(', ')}.` : ''
  const row = [code(path), secret ? `${expects} (secret)` : expects, defaultText(field), doc + renamed]
  return [`| ${row.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`, ...rowsBelow(items === field ? path : `${path}::*`, items)]
}

function rowsBelow(path: string, { fields = {} }: Field<unknown>): string[] {
  return Object.entries(fields).flatMap(([key, field]) => optionRows(`${path}::${key}`, field))
}

function defaultText(field: Field<unknown>): string {
  const value = field.default
  if (value === undefined) return '**required**'
  if (value === null) return field.type === 'group' ? 'off' : 'not set'
  if (isEmptyGroup(field, value)) return 'as below'
  return code(typeof value === 'string' && value !== '' ? value : stringify(value, { collectionStyle: 'flow', lineWidth: 0 }).trim())
}

/** `given` is what a default or an example says of the group. */
function example(fields: Fields, given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const shown: Record<string, unknown> = {}
  for (const [key, field] of Object.entries(fields)) {
    const value = given[key] ?? field.example ?? field.default
    if (value === undefined) throw new Error(`give the required option "${key}" an example, for the page that is made of it`)
    if (value === null || (isEmptyGroup(field, value) && !(key in given))) continue
    shown[key] = field.fields && isRecord(value) ? example(field.fields, value) : value
  }
  return shown
}

function isEmptyGroup({ type }: Field<unknown>, value: unknown): boolean {
  return type === 'group' && isRecord(value) && Object.keys(value).length === 0
}

const code = (text: string) => `\`${text}\``

function paragraphs(...parts: (string | false)[]): string {
  return `${parts.filter((part) => part !== false).join('\n\n')}\n`
}
