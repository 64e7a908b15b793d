// A policy's versions as folders: `<policies_dir>/<policy>/<version>` holds what Hugging Face tools load, and in `state/` what the
// trainer goes on from. A folder is there whole, or it is not there.

import { existsSync } from 'node:fs'
import { mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'

import type { Learner } from '../policy/learning.ts'
import type { PolicyVersion } from '../storage/policies.ts'

export interface VersionFolders {
  readonly folder: string
  /** @returns the folder of the version. Rejects, saying what is left, where it cannot be written. */
  write(version: number, learner: Pick<Learner, 'save' | 'saveState'>): Promise<string>
  /** Rejects where the folder is not one that `write` made. */
  remove(path: string): Promise<void>
}

export const stateFolder = (path: string): string => join(path, 'state')

export function versionFolders(policies_dir: string, policy: string): VersionFolders {
  const folder = resolve(policies_dir, encodeURIComponent(policy))
  const pathOf = (version: number) => join(folder, String(version))

  async function write(version: number, learner: Pick<Learner, 'save' | 'saveState'>): Promise<string> {
    const path = pathOf(version)
    const unfinished = `${path}.unfinished`
    try {
      await mkdir(folder, { recursive: true })
      await removeUnfinished()
      await learner.save(unfinished)
      await learner.saveState(stateFolder(unfinished))
      // Of a process that died before it could say so: nobody knows of it.
      await rm(path, { recursive: true, force: true })
      await rename(unfinished, path)
      await sync(folder)
    } catch (error) {
      await rm(unfinished, { recursive: true, force: true })
      throw new Error(`version ${version} cannot be written to ${path}: ${(error as Error).message}. Versions before it are as they were`, {
        cause: error,
      })
    }
    return path
  }

  async function removeUnfinished(): Promise<void> {
    for (const name of await readdir(folder)) {
      if (name.endsWith('.unfinished')) await rm(join(folder, name), { recursive: true, force: true })
    }
  }

  async function remove(path: string): Promise<void> {
    if (!/^\d+$/.test(path.slice(folder.length + 1)) || !path.startsWith(folder))
      throw new Error(`${path} is not a version below ${folder}`)
    await rm(path, { recursive: true, force: true })
  }

  return { folder, write, remove }
}

/** So that the rename outlives a power cut. */
async function sync(folder: string): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/**
 * The version to go on from: the newest, but for those that were rolled back, which are retired although they are newer than the live one.
 * Throws where its files are not here.
 */
export function newestVersion(versions: readonly PolicyVersion[]): PolicyVersion {
  const live = versions.find(({ status }) => status === 'live')
  const newest = versions.findLast(({ version, status }) => status !== 'retired' || version <= (live?.version ?? Infinity))!
  if (newest.version > 0 && !existsSync(stateFolder(newest.path))) {
    throw new Error(
      `policy ${newest.policy} is at version ${newest.version}, whose files are not in ${newest.path || 'any folder (they are pruned)'}: ` +
        'train where they are, or promote a version that is here',
    )
  }
  return newest
}

/** Versions beyond the newest `keep` that nothing else asks to be kept: not the base, not a live one, and none of `kept`. */
export function prunable(versions: readonly PolicyVersion[], keep: number, kept: ReadonlySet<number | undefined>): PolicyVersion[] {
  const own = versions.filter(({ version, path }) => version > 0 && path !== '')
  return own.slice(0, -keep).filter(({ version, status }) => status !== 'live' && !kept.has(version))
}
