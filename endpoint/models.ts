// Models by name. `name@7` is version 7 of the policy behind `name`.

import type { Engine } from './engines/engine.ts'
import { ApiError } from './errors.ts'

export interface Model {
  readonly engine: Engine
  /** Whether there are versions of it to be named. */
  readonly versioned: boolean
}

export interface Found {
  readonly engine: Engine
  readonly version: number | undefined
}

export function findModel(models: ReadonlyMap<string, Model>, name: string): Found {
  const exact = models.get(name)
  if (exact) return { engine: exact.engine, version: undefined }
  const [, base = '', version] = /^(.+)@(\d{1,15})$/.exec(name) ?? []
  const pinned = models.get(base)
  if (pinned?.versioned) return { engine: pinned.engine, version: Number(version) }
  throw unknownModel(name, [...models.keys()])
}

export const modelList = (names: readonly string[], created: number) => ({
  object: 'list',
  data: names.map((id) => modelCard(id, created)),
})

export const modelCard = (id: string, created: number) => ({ id, object: 'model', created, owned_by: 'leyden' })

function unknownModel(name: string, known: readonly string[]): ApiError {
  const message = `the model ${JSON.stringify(name.slice(0, 100))} does not exist (known: ${known.join(', ')})`
  return new ApiError(404, 'model_not_found', message, { param: 'model' })
}
