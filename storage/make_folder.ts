// A folder that a user named, made where it is not there.

import { mkdir, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * With those that it lies in. What mkdir() does by `recursive`; that never ends, in Node 20, where the parent is there and nothing can be
 * made in it, as in /proc. Rejects with the system's error.
 */
export async function makeFolder(folder: string, mode: number): Promise<void> {
  try {
    await mkdir(folder, { mode })
  } catch (error) {
    const parent = dirname(folder)
    if (await isFolder(folder)) return
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || parent === folder || (await isFolder(parent))) throw error
    await makeFolder(parent, mode)
    await makeFolder(folder, mode)
  }
}

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )
