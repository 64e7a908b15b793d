// Makes the base policy of an example: `npm run build && node dist/examples/make_base.js <name>`. Minutes; the result is committed.

import { makeBase, type Making } from './base_policy.ts'

const [name] = process.argv.slice(2)
if (name === undefined) throw new Error('name the example, such as math_tool')
const { making } = (await import(`./${name}/base.js`)) as { making: Making }
await makeBase(`examples/${name}/base`, making)
