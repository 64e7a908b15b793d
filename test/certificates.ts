// Certificates for tests: an authority and what it signs. Made here, so that no key lies in the repository.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

import { generate } from 'selfsigned'

export interface Certificate {
  readonly cert: string
  readonly key: string
}

const KEY = { keyType: 'ec', algorithm: 'sha256' } as const
const named = (name: string) => [{ name: 'commonName', value: name }]

export async function authority(name = 'test authority'): Promise<Certificate> {
  const made = await generate(named(name), {
    ...KEY,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  })
  return { cert: made.cert, key: made.private }
}

/** Good for `localhost` and 127.0.0.1, as a server and as a client. */
export async function signedBy(ca: Certificate, name = 'localhost'): Promise<Certificate> {
  const made = await generate(named(name), {
    ...KEY,
    ca,
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 7, ip: '127.0.0.1' },
        ],
      },
    ],
  })
  return { cert: made.cert, key: made.private }
}

/** Writes `<name>.crt` and `<name>.key` and returns their paths, as the options of `tls` name them. */
export function written(folder: string, name: string, { cert, key }: Certificate): { cert_file: string; key_file: string } {
  const files = { cert_file: join(folder, `${name}.crt`), key_file: join(folder, `${name}.key`) }
  writeFileSync(files.cert_file, cert)
  writeFileSync(files.key_file, key, { mode: 0o600 })
  return files
}
