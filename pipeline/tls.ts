// TLS of our servers, with the Collector's keys. Certificates are read anew while the server runs, so a renewed one needs no restart;
// one that cannot be read or does not fit leaves the old one in use. Only keys that are obeyed are listed.

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { createSecureContext, type SecureContextOptions, type Server as TlsServer, type TlsOptions } from 'node:tls'

import type { Context } from './component.ts'
import { onFileChange } from './file_change.ts'
import { messageOf } from './retry.ts'
import { duration, flag, group, list, oneOf, secret, text, type Config } from './schema.ts'

const VERSIONS = ['1.2', '1.3'] as const

/** As TLS and OpenSSL call them: what Go offers of TLS 1.2 that is not broken. Those of TLS 1.3 cannot be chosen, as in Go. */
const CIPHERS = {
  TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: 'ECDHE-ECDSA-AES128-GCM-SHA256',
  TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256: 'ECDHE-RSA-AES128-GCM-SHA256',
  TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384: 'ECDHE-ECDSA-AES256-GCM-SHA384',
  TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384: 'ECDHE-RSA-AES256-GCM-SHA384',
  TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-ECDSA-CHACHA20-POLY1305',
  TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256: 'ECDHE-RSA-CHACHA20-POLY1305',
} as const
type Cipher = keyof typeof CIPHERS
const TLS_1_3_CIPHERS = ['TLS_AES_256_GCM_SHA384', 'TLS_CHACHA20_POLY1305_SHA256', 'TLS_AES_128_GCM_SHA256']

const fields = {
  cert_file: text('File with the certificate and those between it and its root, as PEM.', { default: null }),
  cert_pem: text('The same, written here.', { default: null }),
  key_file: text('File with the private key of the certificate, as PEM.', { default: null }),
  key_pem: secret('The same, written here.', { default: null }),
  client_ca_file: text('File with the authorities that clients need a certificate of (mTLS); null: clients need none.', { default: null }),
  client_ca_file_reload: flag('Whether `client_ca_file` is read again when it changes.', { default: false }),
  min_version: oneOf(VERSIONS, 'The oldest TLS that is spoken.', { default: '1.2' }),
  max_version: oneOf(VERSIONS, 'The newest TLS that is spoken.', { default: '1.3' }),
  cipher_suites: list(
    oneOf(Object.keys(CIPHERS) as Cipher[], 'Name of a suite.'),
    'Suites of TLS 1.2; empty: all that can be named here.',
    {
      default: [],
    },
  ),
  reload_interval: duration('How often certificate and key are read again; null: never.', { default: null, min: 1, example: '1h' }),
}
export type TlsConfig = Config<typeof fields>

export const tls = group(fields, 'Encryption; without it the server speaks plain text.', { default: null })

/** For a component's `check`. */
export function checkTls(config: TlsConfig | null, ...path: string[]): { path: string[]; message: string }[] {
  if (!config) return []
  const { cert_file, cert_pem, key_file, key_pem, client_ca_file, client_ca_file_reload, min_version, max_version } = config
  const problems: string[] = []
  if (cert_file !== null && cert_pem !== null) problems.push('takes cert_file or cert_pem, not both')
  if (key_file !== null && key_pem !== null) problems.push('takes key_file or key_pem, not both')
  if ((cert_file ?? cert_pem) === null) problems.push('needs a certificate: cert_file or cert_pem')
  if ((key_file ?? key_pem) === null) problems.push('needs the private key of the certificate: key_file or key_pem')
  if (client_ca_file_reload && client_ca_file === null) problems.push('client_ca_file_reload needs client_ca_file')
  if (min_version > max_version) problems.push('min_version must not be above max_version')
  return problems.map((message) => ({ path, message }))
}

export interface ServerTls {
  /** For a server of node:tls or node:https. */
  readonly options: TlsOptions
  /** Keeps a server on the newest certificate, until `stop`. */
  guard(server: TlsServer): void
  /** Cuts off whoever has not finished the handshake: a server would wait for them before it is closed. */
  stop(): void
}

/** A client that does not finish its handshake is cut off. */
const HANDSHAKE_MS = 20_000

/** Rejects when something cannot be read, is not what it should be, or does not fit. */
export async function loadTls(config: TlsConfig, { log }: Pick<Context, 'log'>): Promise<ServerTls> {
  const servers: TlsServer[] = []
  let current = await readContext(config)
  const stops: (() => void)[] = []

  async function reload(): Promise<void> {
    try {
      const next = await readContext(config)
      if (JSON.stringify(next) === JSON.stringify(current)) return
      current = next
      for (const server of servers) server.setSecureContext(current)
      log.info('TLS certificates were read anew')
    } catch (error) {
      log.error('TLS certificates cannot be read anew; the old ones stay in use', { error: messageOf(error) })
    }
  }

  if (config.reload_interval !== null) {
    const timer = setInterval(() => void reload(), config.reload_interval).unref()
    stops.push(() => clearInterval(timer))
  }
  if (config.client_ca_file_reload) stops.push(onFileChange(config.client_ca_file!, () => void reload()))

  const mutual = config.client_ca_file !== null
  return {
    get options() {
      return { ...current, requestCert: mutual, rejectUnauthorized: mutual, handshakeTimeout: HANDSHAKE_MS }
    },
    guard(server) {
      servers.push(server)
      stops.push(cutOffHandshakes(server))
    },
    stop: () => stops.splice(0).forEach((stop) => stop()),
  }
}

function cutOffHandshakes(server: TlsServer): () => void {
  const open = new Map<string, Socket>()
  const peer = ({ remoteAddress, remotePort }: Socket) => `${remoteAddress} ${remotePort}`
  server.on('connection', (socket: Socket) => {
    const key = peer(socket)
    open.set(key, socket)
    socket.once('close', () => open.delete(key))
  })
  server.on('secureConnection', (socket) => open.delete(peer(socket)))
  return () => open.forEach((socket) => socket.destroy())
}

async function readContext(config: TlsConfig): Promise<SecureContextOptions> {
  const cert = config.cert_pem ?? (await read('cert_file', config.cert_file!))
  const key = config.key_pem ?? (await read('key_file', config.key_file!))
  const ca = config.client_ca_file === null ? undefined : await read('client_ca_file', config.client_ca_file)
  const certOption = config.cert_pem === null ? 'cert_file' : 'cert_pem'
  const keyOption = config.key_pem === null ? 'key_file' : 'key_pem'

  const certificate = parse(certOption, 'a certificate', () => new X509Certificate(cert))
  const privateKey = parse(keyOption, 'a private key', () => createPrivateKey(key))
  if (ca !== undefined) parse('client_ca_file', 'a certificate', () => new X509Certificate(ca))
  if (!certificate.checkPrivateKey(privateKey)) throw new Error(`tls: ${keyOption} is not the key of the certificate in ${certOption}`)

  const suites = config.cipher_suites.length > 0 ? config.cipher_suites : (Object.keys(CIPHERS) as Cipher[])
  const options: SecureContextOptions = {
    cert,
    key,
    ...(ca !== undefined && { ca }),
    minVersion: `TLSv${config.min_version}`,
    maxVersion: `TLSv${config.max_version}`,
    ciphers: [...TLS_1_3_CIPHERS, ...suites.map((suite) => CIPHERS[suite])].join(':'),
  }
  createSecureContext(options) // throws for whatever is left
  return options
}

async function read(option: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw new Error(`tls: ${option} cannot be read: ${messageOf(error)}`, { cause: error })
  }
}

/** What OpenSSL says of a file that is something else helps nobody. */
function parse<T>(option: string, what: string, make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw new Error(`tls: ${option} must be ${what} in PEM format`, { cause: error })
  }
}
