import { once } from 'node:events'
import { connect, type ClientHttp2Session } from 'node:http2'
import { createServer, type AddressInfo, type Socket } from 'node:net'

import { expect, test } from 'vitest'

import { seeded } from '../../test/random.ts'
import { createFrameReader, settingsFrame, TYPE } from './frames.ts'
import { createHeaderBlocks } from './header_blocks.ts'
import { createHpackDecoder, encodeField, type HpackDecoder } from './hpack.ts'
import { PREFACE } from './preface.ts'

const bytes = (hex: string) => Buffer.from(hex.replaceAll(' ', ''), 'hex')
const decode = (decoder: HpackDecoder, block: Buffer) => decoder.decode(block)?.map(({ name, value }) => `${name}: ${value}`)

/** The dynamic tables of the responses in RFC 7541, appendix C, have 256 bytes, which a block may say. */
const SMALL_TABLE = bytes('3fe101')
const REQUESTS = [
  [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com'],
  [':method: GET', ':scheme: http', ':path: /', ':authority: www.example.com', 'cache-control: no-cache'],
  [':method: GET', ':scheme: https', ':path: /index.html', ':authority: www.example.com', 'custom-key: custom-value'],
]
const DATE = 'date: Mon, 21 Oct 2013 20:13:'
const LOCATION = 'location: https://www.example.com'
const RESPONSES = [
  [':status: 302', 'cache-control: private', `${DATE}21 GMT`, LOCATION],
  [':status: 307', 'cache-control: private', `${DATE}21 GMT`, LOCATION],
  [
    ':status: 200',
    'cache-control: private',
    `${DATE}22 GMT`,
    LOCATION,
    'content-encoding: gzip',
    'set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1',
  ],
]

test('a block that comes again is read by the table of its time', () => {
  const decoder = createHpackDecoder(16_384)
  const inserted = (value: string) => Buffer.concat([bytes('4003 6b6579'), Buffer.from([value.length]), Buffer.from(value)])
  const newest = bytes('be')
  decode(decoder, inserted('one'))
  expect([decode(decoder, newest), decode(decoder, newest)]).toEqual([['key: one'], ['key: one']])
  decode(decoder, inserted('two'))
  expect([decode(decoder, newest), decode(decoder, newest)]).toEqual([['key: two'], ['key: two']])
  expect([decode(decoder, inserted('six')), decode(decoder, inserted('six')), decode(decoder, newest)]).toEqual(
    [1, 2, 3].map(() => ['key: six']),
  )
  decode(decoder, bytes('20')) // a table of no bytes
  expect(() => decoder.decode(newest)).toThrow('no field has index 62')
})

test.each([
  ['400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572', 'custom-key: custom-header'],
  ['040c 2f73 616d 706c 652f 7061 7468', ':path: /sample/path'],
  ['1008 7061 7373 776f 7264 0673 6563 7265 74', 'password: secret'],
  ['82', ':method: GET'],
])('RFC 7541 C.2: %s', (hex, field) => {
  expect(decode(createHpackDecoder(1_000), bytes(hex))).toEqual([field])
})

test.each([
  [
    'C.3, requests',
    REQUESTS,
    [
      '8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
      '8286 84be 5808 6e6f 2d63 6163 6865',
      '8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65',
    ],
  ],
  [
    'C.4, requests in Huffman code',
    REQUESTS,
    [
      '8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff',
      '8286 84be 5886 a8eb 1064 9cbf',
      '8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf',
    ],
  ],
  [
    'C.5, responses that evict',
    RESPONSES,
    [
      '4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120 474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d',
      '4803 3330 37c1 c0bf',
      '88c1 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3220 474d 54c0 5a04 677a 6970 7738 666f 6f3d 4153 444a 4b48 514b 425a 584f 5157 454f 5049 5541 5851 5745 4f49 553b 206d 6178 2d61 6765 3d33 3630 303b 2076 6572 7369 6f6e 3d31',
    ],
  ],
  [
    'C.6, responses that evict, in Huffman code',
    RESPONSES,
    [
      '4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3',
      '4883 640e ffc1 c0bf',
      '88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07',
    ],
  ],
])('RFC 7541 %s', (_name, lists, blocks) => {
  const decoder = createHpackDecoder(1_000)
  if (lists === RESPONSES) decoder.decode(SMALL_TABLE)
  expect(blocks.map((block) => decode(decoder, bytes(block)))).toEqual(lists)
})

test.each([
  ['an index beyond both tables', 'be'],
  ['index 0', '80'],
  ['a table larger than allowed', '3fe21f'],
  ['a table size after a field', '8220'],
  ['a number without end', 'ffffffffffff'],
  ['a number cut short', 'ff80'],
  ['a name cut short', '400a6375'],
  ['a value that is missing', '040c'],
  ['a literal with nothing behind it', '40'],
  ['Huffman code that ends in zeros', '0481f0'],
  ['Huffman code that ends in eight ones', '0482ffff'],
  ['the code for "end of string"', '0484fffffffc'],
])('%s breaks the connection', (_what, hex) => {
  expect(() => createHpackDecoder(1_000).decode(bytes(hex))).toThrow('header compression')
})

test('a list over the limit is not given, and the table follows all the same', () => {
  const decoder = createHpackDecoder(100)
  expect(decode(decoder, bytes('400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572 be'))).toBeUndefined()
  expect(decode(decoder, bytes('be'))).toEqual(['custom-key: custom-header'])
})

test('a field larger than the table empties it', () => {
  const decoder = createHpackDecoder(1e6)
  decoder.decode(bytes('400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572'))
  const large = encodeField('x', 'y'.repeat(5_000))
  large[0] = 0x40
  expect(decoder.decode(large)).toHaveLength(1)
  expect(() => decoder.decode(bytes('be'))).toThrow('no field has index 62')
})

test('what is encoded is decoded, whatever its length', () => {
  for (const length of [0, 1, 126, 127, 128, 254, 255, 256, 16_511, 16_512]) {
    const value = 'v'.repeat(length)
    expect(decode(createHpackDecoder(1e6), encodeField('name', value))).toEqual([`name: ${value}`])
  }
})

test.each([
  ['Upper', 'x', false],
  ['', 'x', false],
  ['a b', 'x', false],
  ['x', 'a\r\nb', false],
  ['x', 'a\0', false],
  ['x', ' a', false],
  ['x', 'a\t', false],
  ['x-y_z.1', 'a b\xff', true],
])('a field %j: %j is legal: %s', (name, value, legal) => {
  expect(createHpackDecoder(1_000).decode(encodeField(name, value))).toMatchObject([{ legal }])
})

test.each([0, 100, 4_096])('decodes what node:http2 encodes for a table of %i bytes', async (tableBytes) => {
  const random = seeded(7)
  const anyText = () => String.fromCharCode(...Array.from({ length: 1 + random(300) }, () => LEGAL[random(LEGAL.length)]!))
  const value = () => ['gzip', '1000m', 'Bearer abc', anyText(), anyText()][random(5)]!
  const list = () => Object.fromEntries(Array.from({ length: 1 + random(12) }, () => [`x-${random(30)}`, value()]))
  const sent = Array.from({ length: 60 }, list)
  const expected = sent.map((headers) => Object.entries(headers).map(([name, text]) => `${name}: ${text}`))
  expect(await decodedFrom(sent, tableBytes)).toEqual(expected)
})

test('decodes every byte in Huffman code', async () => {
  // Among letters that make the code shorter than the text, so that node uses it.
  const sent = SENDABLE.map((byte) => ({ x: `${'a'.repeat(20)}${String.fromCharCode(byte)}a` }))
  expect(await decodedFrom(sent, 0)).toEqual(sent.map(({ x }) => [`x: ${x}`]))
  const rest = ['0482ffc7', '0484fffffff3', '0484fffffff7'].flatMap((hex) => createHpackDecoder(1_000).decode(bytes(hex))!)
  expect(rest.map(({ value }) => value)).toEqual(['\0', '\n', '\r'])
})

const SENDABLE = Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => byte !== 0 && byte !== 10 && byte !== 13)
const LEGAL = SENDABLE.filter((byte) => byte > 32)

/** Sends header lists with node's client to a server that decodes them. */
async function decodedFrom(sent: readonly Record<string, string>[], tableBytes: number): Promise<string[][]> {
  const decoder = createHpackDecoder(1e6)
  const lists: string[][] = []
  let finish = () => {}
  const all = new Promise<void>((resolve) => (finish = resolve))
  const blocks = createHeaderBlocks(
    1e6,
    (_id, _endStream, bytes, start, end) => {
      lists.push(decode(decoder, bytes.subarray(start, end))!.filter((field) => field.startsWith('x')))
      if (lists.length === sent.length) finish()
    },
    () => new Error('too large'),
  )
  const server = createServer((socket) => speak(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  await once(client, 'remoteSettings')
  for (const headers of sent) request(client, headers)
  await all
  client.destroy()
  server.close()
  return lists

  function speak(socket: Socket): void {
    let greeting = PREFACE.length
    const ignore = () => {}
    const frame = (type: number, flags: number, id: number, bytes: Buffer, start: number, end: number) => {
      if (type === TYPE.headers) blocks.headers(flags, id, bytes, start, end)
      if (type === TYPE.continuation) blocks.continuation(flags, id, bytes, start, end)
    }
    const read = createFrameReader({ dataStart: ignore, data: ignore, dataEnd: ignore, frame }, 1e6)
    socket.write(settingsFrame([[HEADER_TABLE_SIZE, tableBytes]]))
    socket.on('error', ignore)
    socket.on('data', (piece: Buffer) => {
      const rest = piece.subarray(greeting)
      greeting -= piece.length - rest.length
      read(rest)
    })
  }
}

const HEADER_TABLE_SIZE = 1

function request(client: ClientHttp2Session, headers: Record<string, string>): void {
  client.request(headers, { endStream: true }).on('error', () => {})
}
