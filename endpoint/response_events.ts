// The events of a streamed response: an item opens, gets its parts, and closes before the next one opens.

import type { Answer, Emit, Events, Head, ToolCallPiece } from './api.ts'
import { logprobOf } from './chat.ts'
import type { Json } from './fields.ts'

export const messageId = ({ id }: Head): string => id.replace(/^resp_/, 'msg_')
export const callItemId = ({ id }: Head, index: number): string => `${id.replace(/^resp_/, 'fc_')}_${index}`

interface Options {
  readonly head: Head
  readonly emit: Emit
  /** The response before there is an answer. */
  readonly opening: Json
  readonly whole: (answer: Answer) => Json
  readonly withLogprobs: boolean
}

/** What is being said. */
interface Item {
  readonly output_index: number
  readonly kind: 'message' | 'function_call'
  readonly id: string
  readonly call_id: string
  readonly name: string
  text: string
}

export function responseEvents({ head, emit, opening, whole, withLogprobs }: Options): Events {
  let sequence_number = 0
  let item: Item | undefined
  let items = 0
  const send = (type: string, data: Json) => emit({ type, sequence_number: sequence_number++, ...data }, type)

  function begin(): void {
    if (sequence_number > 0) return
    send('response.created', { response: opening })
    send('response.in_progress', { response: opening })
  }

  function openItem(kind: Item['kind'], { index = 0, id = '', name = '' }: Partial<ToolCallPiece>): Item {
    closeItem()
    item = { output_index: items++, kind, id: kind === 'message' ? messageId(head) : callItemId(head, index), call_id: id, name, text: '' }
    send('response.output_item.added', { output_index: item.output_index, item: written(item, 'in_progress') })
    if (kind === 'message') send('response.content_part.added', { ...placeOf(item), part: outputText('') })
    return item
  }

  function closeItem(): void {
    if (!item) return
    const { output_index, kind, id, text } = item
    if (kind === 'message') {
      send('response.output_text.done', { ...placeOf(item), text, logprobs: [] })
      send('response.content_part.done', { ...placeOf(item), part: outputText(text) })
    } else send('response.function_call_arguments.done', { item_id: id, output_index, name: item.name, arguments: text })
    send('response.output_item.done', { output_index, item: written(item, 'completed') })
    item = undefined
  }

  return {
    piece(_choice, { text, tool_calls, tokens }) {
      begin()
      if (text !== '') {
        const message = item?.kind === 'message' ? item : openItem('message', {})
        message.text += text
        send('response.output_text.delta', { ...placeOf(message), delta: text, logprobs: withLogprobs ? tokens.map(logprobOf) : [] })
      }
      for (const call of tool_calls) {
        const open = call.id === undefined && item ? item : openItem('function_call', call)
        open.text += call.arguments
        if (call.arguments === '') continue
        send('response.function_call_arguments.delta', { item_id: open.id, output_index: open.output_index, delta: call.arguments })
      }
    },
    end() {
      begin()
      if (items === 0) openItem('message', {})
      closeItem()
    },
    close([answer]) {
      const response = whole(answer!)
      send(`response.${String(response.status)}`, { response })
    },
  }
}

const placeOf = ({ id, output_index }: Item) => ({ item_id: id, output_index, content_index: 0 })

const outputText = (text: string) => ({ type: 'output_text', text, annotations: [], logprobs: [] })

const written = ({ kind, id, call_id, name, text }: Item, status: 'in_progress' | 'completed'): Json =>
  kind === 'message'
    ? { id, type: 'message', status, role: 'assistant', content: status === 'completed' ? [outputText(text)] : [] }
    : { id, type: 'function_call', status, call_id, name, arguments: text }
