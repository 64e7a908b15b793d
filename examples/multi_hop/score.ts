// What an answer is worth: 0.9 × F1 + 0.1 for the right form, as the RAG experiment of Agent Lightning has it.

/** `reply`: what the agent answered, whole; the form is right where the answer stands in its tags and nothing else does. */
export function score(reply: string, right: string): number {
  const tagged = /^<answer>([^<>]+)<\/answer>$/.exec(reply.trim())?.[1]
  return reward(tagged ?? reply.replace(/<[^>]*>/g, ' '), right, tagged !== undefined)
}

export const reward = (given: string, right: string, formed: boolean): number => 0.9 * f1(given, right) + (formed ? 0.1 : 0)

/** Harmonic mean of precision and recall over words, as SQuAD counts them: without case, punctuation and articles. */
export function f1(given: string, right: string): number {
  const said = wordsOf(given)
  const left = wordsOf(right)
  const total = said.length + left.length
  const common = said.filter((word) => {
    const at = left.indexOf(word)
    if (at >= 0) left.splice(at, 1)
    return at >= 0
  }).length
  return common === 0 ? 0 : (2 * common) / total
}

const wordsOf = (text: string): string[] =>
  text
    .toLowerCase()
    .replace(/\p{P}/gu, '')
    .replace(/\b(a|an|the)\b/g, ' ')
    .split(/\s+/)
    .filter(Boolean)
