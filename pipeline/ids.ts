// The grammar of component and pipeline ids: type[/name], texts as in the Collector.

export interface Id {
  /** Without the spaces around its parts. */
  readonly id: string
  readonly type: string
  readonly name: string
}

const TYPE = /^[a-zA-Z][0-9a-zA-Z_]{0,62}$/
const NAME = /^[^\p{Z}\p{C}\p{S}]{1,1024}$/u

/** @returns what is wrong with the id, as a string, or the id */
export function parseId(written: string): Id | string {
  const slash = written.indexOf('/')
  const type = (slash < 0 ? written : written.slice(0, slash)).trim()
  const name = slash < 0 ? '' : written.slice(slash + 1).trim()
  if (slash < 0 && type === '') return 'id must not be empty'
  if (type === '') return `in "${written}" id: the part before / should not be empty`
  if (slash >= 0 && name === '') return `in "${written}" id: the part after / should not be empty`
  if (!TYPE.test(type)) return `in "${written}" id: invalid character(s) in type "${type}"`
  if (slash >= 0 && !NAME.test(name)) return `in "${written}" id: invalid character(s) in name "${name}"`
  return { id: slash < 0 ? type : `${type}/${name}`, type, name }
}
