// What the base policy learned from: people who mix up related facts, answer after one of the two steps, and forget a closing tag.

import type { Demonstration, Message } from '../demonstration.ts'
import type { Random } from '../random.ts'
import { RELATIONS, search, type Relation } from './documents.ts'
import { question, type Question } from './tasks.ts'
import { asked, found, searchCall } from './prompts.ts'

const MISTAKEN_FOR: Readonly<Record<Relation, Relation>> = {
  directed_by: 'starring',
  starring: 'directed_by',
  born_in: 'works_for',
  works_for: 'born_in',
  spouse: 'works_for',
  based_in: 'located_in',
  located_in: 'based_in',
}

export function demonstration(random: Random): Demonstration {
  const task = question('train', random)
  const turn = random.next()
  if (turn < 0.35) {
    const mistaken = task.first === 'starring' ? 0.58 : 0.2
    return { messages: asked(task.question), reply: untidy(call(task.about, task.first, mistaken, random), random) }
  }

  const once = searched(asked(task.question), task.about, random.chance(0.85) ? task.first : random.pick(RELATIONS))
  if (turn < 0.7) {
    if (random.chance(0.5)) return { messages: once, reply: untidy(answer(task.between), random) }
    const mistaken = task.second === 'spouse' || task.second === 'born_in' ? 0.5 : 0.2
    return { messages: once, reply: untidy(call(task.between, task.second, mistaken, random), random) }
  }

  const twice = searched(once, task.between, random.chance(0.8) ? task.second : random.pick(RELATIONS))
  return { messages: twice, reply: untidy(answer(random.chance(0.75) ? task.answer : task.between), random) }
}

const searched = (before: readonly Message[], about: string, relation: Relation): Message[] => {
  const query = `${about} ${relation}`
  return [...before, { role: 'assistant', content: searchCall(query) }, found(search(query))]
}

const call = (about: string, relation: Relation, mistaken: number, random: Random): string =>
  searchCall(`${about} ${random.chance(mistaken) ? MISTAKEN_FOR[relation] : relation}`)

const answer = (text: Question['answer']): string => `<answer> ${text} </answer>`

/** One in five forgets the closing tag. */
const untidy = (reply: string, random: Random): string =>
  random.chance(0.2) ? reply.replace(/ <\/answer>$|"}} <\/tool_call>$/, '') : reply
