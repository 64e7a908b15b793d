// Tells when a file has changed: certificates and tokens are renewed under a running Leyden.

import { unwatchFile, watchFile } from 'node:fs'

/** The file is looked at, not waited for: a secret that Kubernetes mounts is a link to a link, which no watch of the file system follows. */
const INTERVAL_MS = 1_000

/** @returns a function that ends the watch */
export function onFileChange(path: string, changed: () => void): () => void {
  const look = () => changed()
  watchFile(path, { interval: INTERVAL_MS, persistent: false }, look)
  return () => unwatchFile(path, look)
}
