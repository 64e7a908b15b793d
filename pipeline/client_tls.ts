// TLS of our clients, with the Collector's keys. Only keys that are obeyed are listed.

import { readFile } from 'node:fs/promises'
import type { ConnectionOptions } from 'node:tls'

import { messageOf } from './retry.ts'
import { flag, group, text, type Config } from './schema.ts'

const fields = {
  insecure: flag('Whether plain text is spoken where the endpoint has no scheme to say so.', { default: false }),
  insecure_skip_verify: flag('Whether any certificate of the server is taken.', { default: false }),
  ca_file: text("File with the authorities that the server's certificate may come from, as PEM; null: those of the system.", {
    default: null,
  }),
  cert_file: text('File with our own certificate, as PEM, for a server that asks for one (mTLS).', { default: null }),
  key_file: text('File with the private key of our certificate, as PEM.', { default: null }),
  server_name_override: text("The name that the server's certificate must have, where it is not that of the endpoint.", { default: null }),
}
export type ClientTlsConfig = Config<typeof fields>

export const clientTls = group(fields, 'Encryption towards the server.')

/** For a component's `check`. */
export function checkClientTls({ cert_file, key_file }: ClientTlsConfig, ...path: string[]): { path: string[]; message: string }[] {
  const half = (cert_file === null) !== (key_file === null)
  return half ? [{ path, message: 'needs cert_file and key_file together' }] : []
}

/** Options of node:tls. Rejects when a file cannot be read. */
export async function loadClientTls(config: ClientTlsConfig): Promise<ConnectionOptions> {
  const [ca, cert, key] = await Promise.all((['ca_file', 'cert_file', 'key_file'] as const).map((option) => read(option, config[option])))
  return {
    rejectUnauthorized: !config.insecure_skip_verify,
    ...(ca && { ca }),
    ...(cert && { cert }),
    ...(key && { key }),
    ...(config.server_name_override !== null && { servername: config.server_name_override }),
  }
}

async function read(option: string, path: string | null): Promise<Buffer | undefined> {
  if (path === null) return undefined
  try {
    return await readFile(path)
  } catch (error) {
    throw new Error(`tls: ${option} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}
