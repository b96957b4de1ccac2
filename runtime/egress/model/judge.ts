import type { ModelRoute } from '../../../contracts/egress.ts'
import type { Refusal } from '../refusals.ts'
import { KEYS } from './keys.ts'
import type { ModelEndpoint } from './route.ts'

type Json = Record<string, unknown>

export type Judged =
  | { readonly ok: true; readonly body: Json }
  | { readonly ok: false; readonly refusal: Refusal }

type Allowed = Pick<ModelRoute, 'models' | 'serverTools'>

/** Tools that the agent carries out by itself. The server only names them in its answer. */
const CLIENT_TOOLS = new Set(['function', 'custom'])

/** Items of a conversation that contain everything they say. Others refer to something that the server has stored. */
const ITEMS = new Set([
  ...['message', 'function_call', 'function_call_output', 'custom_tool_call', 'custom_tool_call_output'],
  'reasoning',
])

/** Content that the server fetches from somewhere else, apart from data in the URL itself. */
const URL_KEY = /(?:^|_)url$/i
const STORED_KEYS = new Set(['file_id', 'image_id', 'container_id', 'vector_store_ids'])
const MAX_DEPTH = 64

const refuse = (reason: string, remedy: string): Judged => ({
  ok: false,
  refusal: { rule: 'model', reason, remedy },
})

const OPERATOR = 'The operator can allow it with AGENTWEAVER_MODEL_SERVER_TOOLS'

/**
 * Judges the body of a request. Only known keys pass, because a model server has parameters that make it search the web,
 * call other servers or read files: a way out of the sandbox. The caller sends the parsed body on, so that a key which
 * occurs twice has one meaning.
 */
export function judgeBody(text: string, endpoint: ModelEndpoint, allowed: Allowed): Judged {
  const body = parse(text)
  if (!body) return refuse('the body is not a JSON object', 'Send one JSON object.')
  return (
    modelFault(body, allowed) ??
    keyFault(body, endpoint, allowed) ??
    contentFault(body, allowed) ?? { ok: true, body }
  )
}

function parse(text: string): Json | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    return isObject(parsed) ? parsed : undefined
  } catch {
    return undefined
  }
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const shown = (text: unknown) => JSON.stringify(text)?.slice(0, 100) ?? 'nothing'

function modelFault({ model }: Json, { models }: Allowed): Judged | undefined {
  return typeof model === 'string' && models.includes(model)
    ? undefined
    : refuse(
        `this run may use only the model ${models.join(', ')}, not ${shown(model)}`,
        'Start a run with the other model.',
      )
}

function keyFault(body: Json, endpoint: ModelEndpoint, { serverTools = [] }: Allowed): Judged | undefined {
  const known = KEYS[endpoint]
  const other = Object.keys(body).find((key) => !known.has(key) && !serverTools.includes(key))
  if (other !== undefined)
    return refuse(`the request has the parameter ${shown(other)}, which is not allowed`, `${OPERATOR}.`)
  const { tools = [] } = body
  if (!Array.isArray(tools)) return refuse('"tools" is not a list', 'Send a list of tools.')
  const tool = tools.map(typeOf).find((type) => !CLIENT_TOOLS.has(type) && !serverTools.includes(type))
  return tool === undefined
    ? undefined
    : refuse(`the tool ${shown(tool)} would run on the model server, outside the sandbox`, `${OPERATOR}.`)
}

/** An item without a type is a message, and a tool without one is a fault. */
const typeOf = (item: unknown): string =>
  isObject(item) && typeof item['type'] === 'string' ? item['type'] : ''

function contentFault({ messages, input }: Json, { serverTools = [] }: Allowed): Judged | undefined {
  const items = Array.isArray(input) ? input : []
  const item = items
    .map(typeOf)
    .find((type) => type !== '' && !ITEMS.has(type) && !serverTools.includes(type))
  if (item !== undefined)
    return refuse(`the input has an item of the type ${shown(item)}, which is not allowed`, `${OPERATOR}.`)
  const remote = remoteIn([messages, input], 0)
  if (remote === undefined || serverTools.includes(remote)) return undefined
  return refuse(
    `the content has ${shown(remote)}, which the model server would fetch from elsewhere`,
    `Send the data itself, such as data:image/png;base64. ${OPERATOR}.`,
  )
}

/** The first key whose value the server would fetch. */
function remoteIn(value: unknown, depth: number): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  if (depth > MAX_DEPTH) return 'too many levels'
  if (Array.isArray(value)) return first(value, (each) => remoteIn(each, depth + 1))
  return first(Object.entries(value), ([key, inner]) =>
    STORED_KEYS.has(key) || (URL_KEY.test(key) && !isData(inner)) ? key : remoteIn(inner, depth + 1),
  )
}

const isData = (value: unknown): boolean => {
  const url = isObject(value) ? value['url'] : value
  return typeof url === 'string' && url.startsWith('data:')
}

function first<T>(list: readonly T[], find: (each: T) => string | undefined): string | undefined {
  for (const each of list) {
    const found = find(each)
    if (found !== undefined) return found
  }
  return undefined
}
