// The version in package.json, found from the sources and from dist/ alike.

import { readFileSync } from 'node:fs'

export const packageVersion: string = versionAt(new URL('..', import.meta.url))

function versionAt(folder: URL): string {
  try {
    return (JSON.parse(readFileSync(new URL('package.json', folder), 'utf8')) as { version: string }).version
  } catch {
    return versionAt(new URL('..', folder))
  }
}
