// The first thing that clickhouse-go asks on a connection. It reads the answer as a Native block of the revision that it speaks itself, but
// everything after as one of the revision that the answer names. chDB writes revision 0, so that is what the answer says, and only the
// answer itself has to be of the newer kind: with an account of the block before it, and a byte for each column on how that is written.

const HELLO = /^\s*SELECT displayName\(\), version\(\), revision\(\), timezone\(\)/

export const isHello = (sql: string): boolean => HELLO.test(sql)

export function hello(version: string): Buffer {
  const column = (name: string, type: string, value: Buffer) => Buffer.concat([text(name), text(type), Buffer.of(0), value])
  return Buffer.concat([
    Buffer.of(1, 0, 2, 255, 255, 255, 255, 0), // no overflow rows, no bucket
    Buffer.of(4, 1), // columns, rows
    column('displayName()', 'String', text('leyden')),
    column('version()', 'String', text(version)),
    column('revision()', 'UInt32', Buffer.alloc(4)),
    column('timezone()', 'String', text('UTC')),
  ])
}

/** Short ones, so that the length is one byte. */
const text = (value: string): Buffer => Buffer.concat([Buffer.of(Buffer.byteLength(value)), Buffer.from(value)])
