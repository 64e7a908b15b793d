// A folder for queues that outlive the process: `sending_queue::storage: file_storage` puts a queue there.

import { access, constants, readdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'

import { extension } from '../pipeline/component.ts'
import { openDiskQueue, type Room } from '../pipeline/disk/disk_queue.ts'
import { lockFolder } from '../pipeline/disk/folder_lock.ts'
import type { QueueFolder } from '../pipeline/disk/persistent.ts'
import { messageOf } from '../pipeline/retry.ts'
import { duration, flag, number, text } from '../pipeline/schema.ts'
import { makeFolder } from '../storage/make_folder.ts'

const MIB = 1024 * 1024
const SEGMENT_BYTES = 64 * MIB
/** So that a small folder is not one segment, which only goes as a whole. */
const LEAST_SEGMENTS = 4

export default extension({
  type: 'file_storage',
  summary: 'Keeps queues on disk, so that what they took outlives the process.',
  role: 'storage',
  config: {
    directory: text('The folder, of this extension alone.', { default: 'leyden_queue' }),
    create_directory: flag('Whether the folder is made where it does not exist.', { default: true }),
    fsync: flag('Whether a request is synced to the disk before it is acknowledged. When false, a power cut loses the last ones.', {
      default: true,
    }),
    timeout: duration('How long to wait for another process to let go of the folder.', { default: '1s' }),
    max_size_mib: number('All queues of the folder together take no more MiB; past it they refuse.', { default: 4096, min: 1 }),
  },

  create({ directory, create_directory, fsync, timeout, max_size_mib }, context) {
    const folder = resolve(directory)
    const limit = max_size_mib * MIB
    let used = 0
    let unlock: (() => Promise<void>) | undefined

    context.gauge('leyden_file_storage_bytes', () => used)
    context.gauge('leyden_file_storage_capacity_bytes', () => limit)

    const room: Room = {
      take(bytes) {
        if (used + bytes > limit) return false
        used += bytes
        return true
      },
      occupy: (bytes) => void (used += bytes),
      give: (bytes) => void (used -= bytes),
    }

    const opened = new Set(['lock'])
    const api: QueueFolder = {
      open(name, { log, count }) {
        const segmentBytes = Math.min(SEGMENT_BYTES, limit / LEAST_SEGMENTS)
        const own = encodeURIComponent(name)
        opened.add(own)
        return openDiskQueue({ folder: join(folder, own), fsync, segmentBytes, room, context: { log, count } })
      },
    }

    /** A component that was renamed or taken out leaves its queue behind. */
    async function sayWhatNobodyOpened(): Promise<void> {
      for (const name of await readdir(folder)) {
        if (opened.has(name)) continue
        const waits = (await readdir(join(folder, name)).catch(() => [])).some((file) => file.endsWith('.segment'))
        if (waits) context.log.warn('A queue on disk belongs to no component any more; what is in it waits', { queue: join(folder, name) })
      }
    }

    return {
      api,
      async start() {
        try {
          if (create_directory) await makeFolder(folder, 0o750)
          await access(folder, constants.R_OK | constants.W_OK)
          unlock = await lockFolder(folder, timeout)
        } catch (error) {
          throw new Error(`extensions::${context.id}::directory: ${messageOf(error)}`, { cause: error })
        }
      },
      ready() {
        sayWhatNobodyOpened().catch((error: unknown) => context.log.warn('The folder cannot be read', { error: messageOf(error) }))
      },
      async shutdown() {
        await unlock?.()
        unlock = undefined
      },
    }
  },
})
