// The processors that a rollout passes on its way to the exporters, without a pipeline around them.

import type { Rollout } from '../data/rollout.ts'
import type { Context, Processor } from '../pipeline/component.ts'
import type { Plan } from '../pipeline/config.ts'
import { readConfig } from '../pipeline/schema.ts'
import { processors } from '../processors/index.ts'

/** Those of config/pipeline.yaml. */
const USUAL = ['policy_calls', 'air', 'credit_assignment']

/** What makes of a rollout what its exporters get; null where a processor drops it. The plan's first pipeline of rollouts decides. */
export function rolloutProcessor(plan: Plan | undefined): (rollout: Rollout) => Promise<Rollout | null> {
  const chain = plan ? configured(plan) : usual()
  return async (rollout) => {
    let processed: Rollout | null = rollout
    for (const processor of chain) if (processed) processed = (await processor.process(processed)) as Rollout | null
    return processed
  }
}

function configured({ processors, service }: Plan): Processor[] {
  const pipeline = service.pipelines.find(({ signal }) => signal === 'rollouts')
  return (pipeline?.processors ?? []).map((id) => {
    const { component, config } = processors.get(id)!
    return component.create(config, contextOf(id))
  })
}

const usual = (): Processor[] =>
  USUAL.map((type) => {
    const component = processors.find((processor) => processor.type === type)!
    return component.create(readConfig(component.config, null, [], []), contextOf(type))
  })

/** Nothing is counted or logged: this is no run. */
const contextOf = (id: string): Context => ({
  id,
  kind: 'processor',
  signal: 'rollouts',
  log: { debug() {}, info() {}, warn() {}, error() {} },
  count() {},
  counter: () => () => {},
  gauge() {},
  extension() {
    throw new Error(`${id} needs an extension, and none runs here`)
  },
  health() {},
  problems: () => [],
})
