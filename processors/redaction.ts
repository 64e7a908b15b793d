// Hides personal data and keys in spans and log records. It belongs in every pipeline of traces and logs, before anything that
// stores; what passed without it is stored as it came. It does not know names and postal addresses.

import { createHmac, randomBytes } from 'node:crypto'

import { globs } from '../data/glob.ts'
import { redact, type Rules } from '../data/redact.ts'
import { rewrite } from '../data/rewrite.ts'
import { ROUTING_KEYS } from '../data/scan.ts'
import { DETECTORS, sensitive } from '../data/sensitive.ts'
import { redactedMark } from '../data/values.ts'
import { processor } from '../pipeline/component.ts'
import { list, oneOf, secret, text } from '../pipeline/schema.ts'

/** Token ids and logprobs spell the text in which something was hidden. */
const SPELLED = /token_ids$|logprobs/i
const HASH_DIGITS = 16
/** For ids, when no `hash_key` is given: equal in all pipelines of the process, and not to be found out by trying. */
const PROCESS_KEY = randomBytes(32)

export default processor({
  type: 'redaction',
  summary:
    'Hides email addresses, phone and card numbers, keys, and what else must not be kept, before anything is stored; a call whose text had something to hide is flagged `redacted`.',
  signals: ['traces', 'logs'],
  config: {
    detect: list(
      oneOf(DETECTORS, 'A detector.'),
      'What is looked for: addresses, phone numbers, card numbers (with their checksum), and `secret`: tokens, keys, passwords in URLs.',
      { default: DETECTORS },
    ),
    blocked_values: list(text('A regular expression.'), 'What else is hidden, wherever it stands in a text.', {
      default: [],
      example: ['\\bEMP-\\d{6}\\b'],
    }),
    blocked_keys: list(
      text('A glob.'),
      'Attributes whose values are hidden whole; so are members of that name in JSON, as in the arguments of a tool.',
      { default: ['*authorization', '*api_key', '*apikey', '*password', '*cookie'] },
    ),
    allowed_keys: list(text('A glob.'), 'The only attributes that stay, on resources and scopes too; when empty, all do.', { default: [] }),
    hash_key: secret(
      'When set, a keyed hash stands for what is hidden, so that equal values stay equal; else a mask. Ids that join spans are always hashed.',
      { default: null },
    ),
  },

  check: ({ blocked_values }) =>
    blocked_values.flatMap((pattern, i) => {
      const problem = regexProblem(pattern)
      return problem ? [{ path: ['blocked_values', String(i)], message: `must be a regular expression (${problem})` }] : []
    }),

  create({ detect, blocked_values, blocked_keys, allowed_keys, hash_key }, { count }) {
    const own = blocked_values.map((pattern) => new RegExp(pattern, 'gu'))
    const hides = blocked_keys.length > 0 ? globs(blocked_keys) : () => false
    const keeps = globs(allowed_keys)
    const ids = new Set<string>(ROUTING_KEYS)
    const find = sensitive(detect, own)
    let found = new Map<string, number>()

    const rules: Rules = {
      text: (text, attribute) => find(text, (hidden, rule) => stand(hidden, rule, attribute)),
      hide: (value, attribute) => stand(value, 'key', attribute),
      hides,
      keeps,
      drops: () => false,
    }
    const strict: Rules = { ...rules, drops: (key) => SPELLED.test(key) }

    /** What stands for something hidden. Masked ids would join everybody's spans. */
    function stand(hidden: string, rule: string, attribute: string): string {
      found.set(rule, (found.get(rule) ?? 0) + 1)
      if (hash_key === null && !ids.has(attribute)) return redactedMark()
      const digest = createHmac('sha256', hash_key ?? PROCESS_KEY)
      const digits = digest.update(hidden).digest('hex').slice(0, HASH_DIGITS)
      // Letters only, so that no pattern for numbers finds it.
      return redactedMark(digits.replaceAll(/\d/g, (digit) => 'ghijklmnop'[Number(digit)]!))
    }

    return {
      process: (batch) =>
        rewrite(batch, (message) => {
          found = new Map()
          const out = redact(message, rules)
          if (found.size === 0) return out
          found = new Map()
          const whole = redact(message, strict)
          for (const [rule, times] of found) count('leyden_redacted_values', times, { rule })
          return whole
        }),
    }
  },
})

function regexProblem(pattern: string): string | undefined {
  try {
    new RegExp(pattern, 'gu')
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
