// Appends JSON lines to a file: each request of spans or log records as OTLP/JSON, the format of the Collector's file
// exporter, which `otlp_json_file` reads again; each rollout as one object. It does not rotate: use logrotate's copytruncate.

import { open, type FileHandle } from 'node:fs/promises'

import { toJson } from '../data/otlp_json.ts'
import { rolloutJson } from '../data/rollout_json.ts'
import { exporter, permanently, type Signal } from '../pipeline/component.ts'
import { text } from '../pipeline/schema.ts'

export default exporter({
  type: 'file',
  summary: 'Appends spans, log records and rollouts to a file, as JSON lines.',
  signals: ['traces', 'logs', 'rollouts'],
  config: { path: text('The file; it is made if it does not exist, its folder is not.', { example: '/var/lib/leyden/rollouts.jsonl' }) },

  create({ path }, { id }) {
    let file: FileHandle | undefined
    let last: Promise<void> = Promise.resolve()

    /** Lines are safe on disk when it resolves. A write that fails leaves no half line behind, so that it can be tried again. */
    async function append(to: FileHandle, lines: Buffer): Promise<void> {
      const before = await to.stat()
      try {
        await to.appendFile(lines)
        if (before.isFile()) await to.datasync()
      } catch (error) {
        if (before.isFile()) await to.truncate(before.size)
        throw new Error(`cannot write ${path}: ${(error as Error).message}`, { cause: error })
      }
    }

    return {
      async start() {
        try {
          file = await open(path, 'a')
        } catch (error) {
          throw new Error(`exporters::${id}::path: ${(error as Error).message}`, { cause: error })
        }
      },
      async export(items, signal) {
        const lines = permanently(() => Buffer.from(items.map((item) => `${lineOf(item, signal)}\n`).join('')))
        // One after the other: a line must not be written into another.
        const written = last.then(() => append(file!, lines))
        last = written.catch(() => {})
        await written
      },
      async shutdown() {
        await file?.close()
        file = undefined
      },
    }
  },
})

const lineOf = (item: any, signal: Signal): string => (signal === 'rollouts' ? rolloutJson(item) : JSON.stringify(toJson(item)))
