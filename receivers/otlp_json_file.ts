// Reads files of OTLP/JSON as the Collector's file exporter writes them, one request a line, or one document a file; and follows them as they
// grow. A line counts as read when the pipelines have taken it, so a crash repeats lines rather than losing them.

import { glob } from 'tinyglobby'

import { documentsIn, type Part } from '../data/json_lines.ts'
import { fromJson } from '../data/otlp_json.ts'
import { Malformed, scan } from '../data/scan.ts'
import type { SpanBatch } from '../data/span_batch.ts'
import { Permanent, receiver, Refused, type Outputs } from '../pipeline/component.ts'
import { follow, type Follower, type Place } from '../pipeline/follow.ts'
import { openProgress, progress_file } from '../pipeline/progress.ts'
import { duration, list, oneOf, text } from '../pipeline/schema.ts'

const SIGNALS = ['traces', 'logs'] as const
type Signal = (typeof SIGNALS)[number]
const MEMBERS = { traces: 'resourceSpans', logs: 'resourceLogs' } as const
const ITEMS = { traces: 'spans', logs: 'log_records' } as const
/** What a Collector may write into the same file, and nobody here wants. */
const OTHERS = ['resourceMetrics', 'resourceProfiles']

export default receiver({
  type: 'otlp_json_file',
  summary: "Reads OTLP/JSON files, such as the Collector's file exporter writes, and follows them as they grow.",
  signals: SIGNALS,
  aliases: ['otlpjsonfile'],
  config: {
    include: list(text('A glob.'), 'Files to read.', { example: ['/var/log/otel/*.json'] }),
    exclude: list(text('A glob.'), 'Files to leave out, e.g. copies that a rotation makes.', { default: [] }),
    start_at: oneOf(['beginning', 'end'], 'Where a file that is there at the first start is begun; later ones are read whole.', {
      default: 'beginning',
    }),
    poll_interval: duration('How often files are looked for, and looked at.', { default: '200ms', min: 1 }),
    progress_file,
  },
  check: ({ include }) =>
    include.length === 0 ? [{ path: ['include'], message: 'must name at least one file, e.g. /var/log/otel/*.json' }] : [],

  create({ include, exclude, start_at, poll_interval, progress_file }, { id, log, count, health }) {
    const progress = openProgress<readonly Place[]>(progress_file, id)
    let next: Outputs = {}
    let files: Follower | undefined
    let timer: NodeJS.Timeout | undefined
    let polling = Promise.resolve()
    let stopping = false
    // Also when nothing was read yet: where files were begun is to be remembered.
    let moved = true

    async function start(outputs: Outputs): Promise<void> {
      next = outputs
      const places = await progress.load()
      files = follow(places ?? [], start_at === 'end' && !places, take)
      polling = poll()
    }

    async function poll(): Promise<void> {
      let wait = poll_interval
      try {
        const paths = await glob([...include], { ignore: [...exclude], absolute: true, dot: true, expandDirectories: false })
        await files!.poll(paths.sort())
        health(null)
      } catch (error) {
        if (error instanceof Refused) wait = Math.max(wait, error.retryAfterMs)
        if (!stopping) health(`files cannot be read on: ${(error as Error).message}`)
      }
      await remember()
      if (!stopping) timer = setTimeout(() => (polling = poll()), wait)
    }

    async function remember(): Promise<void> {
      if (!moved) return
      moved = false
      await progress
        .save(files!.places())
        .catch((error: Error) => log.warn('cannot remember how far files were read', { error: error.message }))
    }

    async function take(path: string, part: Part): Promise<number> {
      if (stopping) throw new Refused('shutting down')
      const { used, documents, ...found } = documentsIn(part)
      const problems = [...found.problems]
      const batches: Record<Signal, SpanBatch[]> = { traces: [], logs: [] }
      for (const { document, at } of documents) {
        try {
          for (const signal of read(document)) if (next[signal]) batches[signal].push(...scanned(signal, document))
        } catch (error) {
          if (!(error instanceof Malformed)) throw error
          problems.push({ at, problem: error.message })
        }
      }
      await Promise.all(SIGNALS.map((signal) => pass(signal, batches[signal])))
      if (problems.length > 0) {
        const [{ problem, at }] = problems as [(typeof problems)[number]]
        count('leyden_bad_lines', problems.length)
        log.warn('Lines that are no OTLP/JSON were left out.', { file: path, lines: problems.length, first_at_byte: at, problem })
      }
      moved ||= used > 0
      return used
    }

    function scanned(signal: Signal, document: object): SpanBatch[] {
      const { batch, rejected } = scan(signal, fromJson(signal, document))
      if (rejected.length > 0) {
        count(`receiver_refused_${ITEMS[signal]}`, rejected.length, { transport: 'file' })
        log.warn(`${ITEMS[signal]} were refused`, { refused: rejected.length, first: rejected[0]!.reason })
      }
      return batch.count > 0 ? [batch] : []
    }

    /** All at once, as storage takes them; one by one where something among them is refused for good. */
    async function pass(signal: Signal, batches: readonly SpanBatch[]): Promise<void> {
      if (batches.length === 0) return
      const items = batches.reduce((sum, batch) => sum + batch.count, 0)
      try {
        await next[signal]!(batches)
        count(`receiver_accepted_${ITEMS[signal]}`, items, { transport: 'file' })
      } catch (error) {
        if (!(error instanceof Permanent)) throw error
        if (batches.length > 1) {
          for (const batch of batches) await pass(signal, [batch])
          return
        }
        count(`receiver_refused_${ITEMS[signal]}`, items, { transport: 'file' })
        log.warn('the pipeline refused a line for good', { error: error.message })
      }
    }

    async function shutdown(): Promise<void> {
      stopping = true
      clearTimeout(timer)
      await polling
      await files?.close()
    }

    return { start, shutdown }
  },
})

/** The signals that a document holds something of. */
function read(document: object): Signal[] {
  const signals = SIGNALS.filter((signal) => MEMBERS[signal] in document)
  if (signals.length > 0 || OTHERS.some((name) => name in document)) return signals
  throw new Malformed(`holds neither ${MEMBERS.traces} nor ${MEMBERS.logs}`)
}
