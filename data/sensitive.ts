// What must not be kept, found in text: addresses, numbers, keys. Each pattern would rather miss a rare form than eat the ids and
// numbers that traces are full of; where a checksum exists it decides.

export const DETECTORS = ['email', 'phone', 'card', 'secret'] as const
export type Detector = (typeof DETECTORS)[number]

/** What one finding becomes. */
export type Replace = (found: string, rule: string) => string

interface Rule {
  readonly name: string
  readonly pattern: RegExp
  /** Is in every text that has a match, and quicker to look for. */
  readonly needs?: RegExp
  readonly confirms?: (found: string) => boolean
}

/** Replaces what the detectors and a user's own patterns find; returns the same text where they find nothing. */
export function sensitive(detectors: readonly Detector[], own: readonly RegExp[]): (text: string, replace: Replace) => string {
  const rules = [...own.map((pattern) => ({ name: 'own', pattern })), ...RULES.filter(({ name }) => detectors.includes(name as Detector))]
  return (text, replace) => rules.reduce((out, rule) => applied(rule, out, replace), text)
}

function applied({ name, pattern, needs, confirms = () => true }: Rule, text: string, replace: Replace): string {
  if (needs && !needs.test(text)) return text
  // Own patterns may match nothing at all, between any two letters.
  return text.replace(pattern, (found: string) => (found !== '' && confirms(found) ? replace(found, name) : found))
}

const SECRETS = [
  String.raw`(?:sk|pk|rk)-[\w-]{16,}`, // OpenAI, Anthropic and those who do as they do
  String.raw`(?:sk|pk|rk)_(?:live|test)_\w{16,}`, // Stripe
  String.raw`(?:AKIA|ASIA)[0-9A-Z]{16}`, // AWS
  String.raw`AIza[\w-]{35}`, // Google
  String.raw`(?:gh[pousr]_\w{36,}|github_pat_\w{22,}|glpat-[\w-]{20,})`,
  String.raw`xox[abeoprs]-[\w-]{10,}`, // Slack
  String.raw`(?:hf|npm)_\w{30,}`,
  String.raw`eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*`, // JSON web tokens
  String.raw`[Bb](?:earer|asic)\s+(?=[A-Za-z+/._~-]*\d)[\w+/.~-]{12,}=*`,
]
/** What an address is not made of. */
const APART = String.raw`\s"'<>()[\]{},;:!?*#&=|/\\@` + '`'

/** In this order: what a later one would take for something else goes first. */
const RULES: readonly Rule[] = [
  { name: 'card', pattern: /(?<![\w.])(?:(?:\d{4}[ -]?){3}\d{1,7}|\d{4}[ -]?\d{6}[ -]?\d{4,5})(?!\w)/g, confirms: isCard },
  {
    name: 'phone',
    // International with a plus, or as they are written in North America. Bare digits are anything.
    pattern: /(?<![\w+.-])(?:\+[1-9](?:[ -]?\(?\d\)?){7,14}|\(\d{3}\) ?\d{3}[ .-]?\d{4}|\d{3}([ .-])\d{3}\1\d{4})(?![\w-])/g,
  },
  { name: 'secret', pattern: new RegExp(`(?<![A-Za-z0-9])(?:${SECRETS.join('|')})`, 'g') },
  { name: 'secret', pattern: /-----BEGIN [A-Z ]*PRIVATE KEY-----[^]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g },
  // Of https://user:password@host, the password.
  { name: 'secret', pattern: /(?<=:\/\/[^\s:/@]{0,256}:)[^\s/@]{1,256}(?=@)/g, needs: /:\/\// },
  {
    name: 'email',
    pattern: new RegExp(`(?<![^${APART}])[^${APART}]+(?:@|%40)(?:[^${APART}.]{1,63}\\.){1,9}[^${APART}.\\d]{2,63}`, 'g'),
    needs: /@|%40/,
  },
]

/** How the numbers of the networks begin and how long they are, so that one in ten of all long ids is not taken for one. */
const NETWORKS = new RegExp(
  `^(?:${[
    String.raw`4\d{12}(?:\d{3}){0,2}`, // Visa
    String.raw`(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}`, // Mastercard
    String.raw`3[47]\d{13}`, // American Express
    String.raw`3(?:0[0-5]|[689]\d)\d{11}`, // Diners Club
    String.raw`35\d{14}`, // JCB
    String.raw`6(?:011|5\d\d|4[4-9]\d)\d{12}`, // Discover
    String.raw`62\d{14,17}`, // UnionPay
  ].join('|')})$`,
)

/** Whether digits are a payment card's number: a network's, with the checksum of ISO/IEC 7812 (Luhn). */
function isCard(text: string): boolean {
  const digits = text.replaceAll(/[ -]/g, '')
  if (!NETWORKS.test(digits)) return false
  let sum = 0
  for (let i = 0; i < digits.length; i++) {
    const digit = Number(digits.at(-1 - i))
    const counted = i % 2 === 0 ? digit : digit * 2
    sum += counted > 9 ? counted - 9 : counted
  }
  return sum % 10 === 0
}
