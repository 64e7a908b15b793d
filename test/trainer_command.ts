// `leyden train` on a test's own storage and folder, and what came of it.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { train } from '../cli/train.ts'
import { policiesOf } from '../storage/policies.ts'
import { trainingOf } from '../storage/training.ts'
import { BASE } from './calculator.ts'
import { runCommand } from './command.ts'
import { testStorage } from './storage.ts'

export async function trainerCommand() {
  const storage = await testStorage({ settle_timeout: 300 })
  const folder = await mkdtemp(join(tmpdir(), 'leyden-train-'))

  /** `--config` of a trainer of this policy, which takes two groups a step from whatever version. */
  function configOf(policy: string, options: object = {}): string[] {
    const trainer = {
      ...{ policy, base: join(process.cwd(), BASE), policies_dir: folder, groups_per_step: 2, max_staleness: 100 },
      ...{ learning_rate: 1e-3, kernels: 'decomp', ...options },
    }
    const config = {
      receivers: { otlp: { protocols: { http: {} } } },
      exporters: { debug: {} },
      extensions: { clickhouse_storage: { url: storage.url }, trainer },
      service: { extensions: ['clickhouse_storage'], pipelines: { traces: { receivers: ['otlp'], exporters: ['debug'] } } },
    }
    return ['--config', `yaml:${JSON.stringify(config)}`]
  }

  /** Weights, moments and all that a version's folder holds. */
  function digest(policy: string, version: number): string {
    const hash = createHash('sha256')
    const path = join(folder, policy, String(version))
    for (const file of readdirSync(path, { recursive: true, encoding: 'utf8' }).sort()) {
      if (file.endsWith('.safetensors')) hash.update(file).update(readFileSync(join(path, file)))
    }
    return hash.digest('hex')
  }

  return {
    ...{ storage, folder, configOf, digest },
    run: (policy: string, options: object = {}, ...flags: string[]) => runCommand(train, [...configOf(policy, options), ...flags]),
    versionsOf: async (policy: string) =>
      (await policiesOf(storage.client).versions(policy)).map(({ version, status }) => `${version} ${status}`),
    stepsOf: (policy: string) => trainingOf(storage.client, policy).steps(),
    async close() {
      await storage.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
