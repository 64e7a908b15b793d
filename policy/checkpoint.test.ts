import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterEach, beforeEach, describe, expect, test } from 'vitest'

import { readCheckpoint, writeCheckpoint } from './checkpoint.ts'
import { readSafetensors, type Weight, writeSafetensors } from './safetensors.ts'

const FIXTURES = join(import.meta.dirname, '../test/fixtures/policy')

let folder: string
beforeEach(() => {
  folder = join(mkdtempSync(join(tmpdir(), 'leyden-checkpoint-')), 'model')
  cpSync(join(FIXTURES, 'llama'), folder, { recursive: true })
})
afterEach(() => rmSync(join(folder, '..'), { recursive: true }))

const file = () => join(folder, 'model.safetensors')
const vector = (...values: number[]): Weight => ({ shape: [values.length], data: Float32Array.from(values) })

/** Rewrites the weights of the copy. */
function change(edit: (weights: Map<string, Weight>) => void): void {
  const weights = readSafetensors(file())
  edit(weights)
  writeSafetensors(file(), weights)
}

function changeJson(name: string, edit: Record<string, unknown>): void {
  const path = join(folder, name)
  writeFileSync(path, JSON.stringify({ ...(JSON.parse(readFileSync(path, 'utf8')) as object), ...edit }))
}

describe('a checkpoint is refused, with file and tensor named, when', () => {
  test.each<[string, (weights: Map<string, Weight>) => void, RegExp]>([
    ['a tensor is missing', (w) => w.delete('model.norm.weight'), /model: tensor model\.norm\.weight is missing/],
    [
      'a tensor is left over',
      (w) => w.set('model.extra', vector(1)),
      /model: 1 tensors that the model has no use for, model\.extra among them/,
    ],
    [
      'a tensor has another shape',
      (w) => w.set('model.norm.weight', vector(1, 2)),
      /tensor model\.norm\.weight must be \[32\] \(got \[2\]\)/,
    ],
    [
      'a tensor holds NaN',
      (w) => w.set('model.norm.weight', { shape: [32], data: new Float32Array(32).fill(NaN, 3) }),
      /model\.safetensors: tensor model\.norm\.weight holds NaN at place 3/,
    ],
  ])('%s', (_, edit, message) => {
    change(edit)
    expect(() => readCheckpoint(folder)).toThrow(message)
  })

  test('its file is cut off, in a tensor or in the header', () => {
    truncateSync(file(), 80_000)
    expect(() => readCheckpoint(folder)).toThrow(/model\.safetensors: tensor \S+ ends at byte \d+, the file at 80000: it is cut off/)
    truncateSync(file(), 100)
    expect(() => readCheckpoint(folder)).toThrow(/model\.safetensors: is cut off within its header/)
    truncateSync(file(), 3)
    expect(() => readCheckpoint(folder)).toThrow(/model\.safetensors: is cut off: 3 bytes/)
  })

  test('its file is something else', () => {
    writeFileSync(file(), 'a'.repeat(100))
    expect(() => readCheckpoint(folder)).toThrow(/model\.safetensors: is no safetensors file/)
  })

  test('there are no weights, a shard is missing, or there is no folder', () => {
    rmSync(file())
    expect(() => readCheckpoint(folder)).toThrow(/has neither model\.safetensors nor model\.safetensors\.index\.json/)
    writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify({ weight_map: { 'model.norm.weight': 'gone.safetensors' } }))
    expect(() => readCheckpoint(folder)).toThrow(/gone\.safetensors does not exist, but \S+index\.json lists it/)
    expect(() => readCheckpoint(join(folder, 'nowhere'))).toThrow(/nowhere does not exist/)
  })

  test.each<[Record<string, unknown>, RegExp]>([
    [
      { architectures: ['MambaForCausalLM'] },
      /config\.json: architectures: must be one of LlamaForCausalLM, \S+ Qwen3ForCausalLM \(got MambaForCausalLM\)/,
    ],
    [{ hidden_size: '32' }, /config\.json: hidden_size: must be a whole number above 0 \(got 32\)/],
    [{ num_key_value_heads: 3 }, /num_attention_heads: must be a multiple of num_key_value_heads \(got 4 and 3\)/],
    [{ hidden_act: 'gelu' }, /hidden_act: must be silu \(got gelu\)/],
    [{ rope_parameters: { rope_type: 'yarn' } }, /rope_parameters: rope_type must be default or llama3 \(got yarn\)/],
  ])('config.json says %j', (edit, message) => {
    changeJson('config.json', edit)
    expect(() => readCheckpoint(folder)).toThrow(message)
  })
})

describe('an adapter', () => {
  const adapter = () => {
    const target = join(folder, '../adapter')
    cpSync(join(FIXTURES, 'llama-lora'), target, { recursive: true })
    const config = JSON.parse(readFileSync(join(target, 'adapter_config.json'), 'utf8')) as object
    writeFileSync(join(target, 'adapter_config.json'), JSON.stringify({ ...config, base_model_name_or_path: '../model' }))
    return target
  }

  test('is merged into the base that it names, relative to itself', () => {
    const [merged, base] = [readCheckpoint(adapter()), readCheckpoint(folder)]
    const name = 'model.layers.0.self_attn.q_proj.weight'
    expect(merged.weights.get(name)!.data).not.toEqual(base.weights.get(name)!.data)
    expect(merged.weights.get('model.norm.weight')).toEqual(base.weights.get('model.norm.weight'))
    expect(readCheckpoint(merged.base)).toEqual(base)
  })

  test.each<[string, unknown, RegExp]>([
    ['use_dora', true, /adapter_config\.json: use_dora: must be false \(got true\)/],
    ['peft_type', 'IA3', /peft_type: must be LORA/],
    ['r', 5, /tensor \S+lora_A\.weight must be \[5, \d+\] \(got \[4, \d+\]\)/],
  ])('with %s %j is refused', (key, value, message) => {
    const target = adapter()
    const config = JSON.parse(readFileSync(join(target, 'adapter_config.json'), 'utf8')) as object
    writeFileSync(join(target, 'adapter_config.json'), JSON.stringify({ ...config, [key]: value }))
    expect(() => readCheckpoint(target)).toThrow(message)
  })
})

describe('what is written', () => {
  test('is read back: float32 to the last bit, bfloat16 rounded to the nearest', () => {
    const weights = new Map([['a', vector(1, -2.5, 3.14159265, 1e-30, 65504)], ['b', { shape: [2, 2], data: Float32Array.of(0, -0, 1 + 2 ** -8, 1 + 3 * 2 ** -8) }]]) // prettier-ignore
    writeSafetensors(file(), weights)
    expect(readSafetensors(file())).toEqual(weights)
    writeSafetensors(file(), weights, 'BF16')
    const rounded = readSafetensors(file())
    // Halfway between two: to the even one.
    expect(rounded.get('b')!.data).toEqual(Float32Array.of(0, -0, 1, 1 + 2 ** -6))
    expect(Math.abs(rounded.get('a')!.data[2]! / 3.14159265 - 1)).toBeLessThan(2 ** -8)
  })

  test('stays as it was when a write fails', () => {
    const before = readFileSync(file())
    const endless = { shape: [1], get data(): Float32Array { throw new Error('no space left on device') } } // prettier-ignore
    expect(() => writeSafetensors(file(), new Map([['a', endless]]))).toThrow('no space left')
    expect(readFileSync(file())).toEqual(before)
    expect(existsSync(`${file()}.unfinished`)).toBe(false)
  })

  test('carries what lies beside the weights of its base', () => {
    copyFileSync(join(FIXTURES, 'tokenizer/tokenizer.json'), join(folder, 'tokenizer.json'))
    const target = join(folder, '../written')
    mkdirSync(target)
    writeCheckpoint(target, folder, readCheckpoint(folder).weights)
    expect(readFileSync(join(target, 'tokenizer.json'))).toEqual(readFileSync(join(folder, 'tokenizer.json')))
    expect(readCheckpoint(target).weights).toEqual(readCheckpoint(folder).weights)
  })

  test.each([
    ['dtype', 'F32', 'float32'],
    ['torch_dtype', 'BF16', 'bfloat16'],
  ] as const)('says in %s, where its base has that key, that it is %s', (key, type, name) => {
    const target = join(folder, 'retyped')
    const { dtype: _, ...config } = JSON.parse(readFileSync(join(folder, 'config.json'), 'utf8'))
    writeFileSync(join(folder, 'config.json'), JSON.stringify({ ...config, [key]: 'float16' }))
    writeCheckpoint(target, folder, readCheckpoint(folder).weights, type)
    expect(JSON.parse(readFileSync(join(target, 'config.json'), 'utf8'))).toEqual({ ...config, [key]: name })
  })
})

test('half precision is widened: normal, subnormal and zero', () => {
  const header = JSON.stringify({ a: { dtype: 'F16', shape: [5], data_offsets: [0, 10] } })
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  const halves = Uint16Array.of(0x3c00, 0xc100, 0x0001, 0x03ff, 0x8000)
  writeFileSync(file(), Buffer.concat([length, Buffer.from(header), Buffer.from(halves.buffer)]))
  expect(readSafetensors(file()).get('a')!.data).toEqual(Float32Array.of(1, -2.5, 2 ** -24, 1023 * 2 ** -24, -0))
})
