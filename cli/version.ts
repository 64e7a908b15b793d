// The version in package.json, which lies one folder up from the sources and two from dist/cli/.

import { existsSync, readFileSync } from 'node:fs'

const manifest = ['../package.json', '../../package.json'].map((path) => new URL(path, import.meta.url)).find((url) => existsSync(url))!

export const packageVersion: string = (JSON.parse(readFileSync(manifest, 'utf8')) as { version: string }).version
