import { describe, expect, it } from 'vitest'
import { judgeBody } from '../../runtime/egress/model/judge.ts'
import { endpointOf, type ModelEndpoint } from '../../runtime/egress/model/route.ts'

const CHAT: ModelEndpoint = 'POST /chat/completions'
const RESPONSES: ModelEndpoint = 'POST /responses'
const CALL = { type: 'function', function: { name: 'run_command', parameters: {} } }
const GOOD = { model: 'm', stream: true, messages: [{ role: 'user', content: 'hello' }], tools: [CALL] }

const judge = (body: unknown, endpoint: ModelEndpoint = CHAT, serverTools: string[] = []) =>
  judgeBody(typeof body === 'string' ? body : JSON.stringify(body), endpoint, { models: ['m'], serverTools })

describe('a request to a model', () => {
  it('passes with the model of the run and tools of the agent', () => {
    expect(judge(GOOD)).toEqual({ ok: true, body: GOOD })
    expect(
      judge({ model: 'm', input: 'hello', tools: [{ type: 'function', name: 'f' }] }, RESPONSES).ok,
    ).toBe(true)
    expect(judge({ model: 'm', input: ['a', 'b'] }, 'POST /embeddings').ok).toBe(true)
    const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
    expect(judge({ ...GOOD, messages: [{ role: 'user', content: [image] }] }).ok).toBe(true)
  })

  it.each([
    ['another model', { ...GOOD, model: 'm:online' }, CHAT],
    ['no model', { messages: [] }, CHAT],
    ['a list of models', { ...GOOD, model: ['m'] }, CHAT],
    ['web search by a parameter', { ...GOOD, web_search_options: {} }, CHAT],
    ['plugins of a gateway', { ...GOOD, plugins: [{ id: 'web' }] }, CHAT],
    ['data sources', { ...GOOD, data_sources: [{ type: 'azure_search' }] }, CHAT],
    ['more models as a fallback', { ...GOOD, models: ['other'] }, CHAT],
    ['a tool of the server', { ...GOOD, tools: [CALL, { type: 'web_search_preview' }] }, RESPONSES],
    [
      'a remote MCP server',
      { model: 'm', input: 'x', tools: [{ type: 'mcp', server_url: 'https://x' }] },
      RESPONSES,
    ],
    ['a tool without a type', { ...GOOD, tools: [{ function: {} }] }, CHAT],
    ['tools that are no list', { ...GOOD, tools: { type: 'web_search' } }, CHAT],
    ['a stored prompt', { model: 'm', prompt: { id: 'p' } }, RESPONSES],
    ['a stored conversation', { model: 'm', input: 'x', previous_response_id: 'r' }, RESPONSES],
    ['a stored item', { model: 'm', input: [{ type: 'item_reference', id: 'i' }] }, RESPONSES],
    [
      'an image that the server fetches',
      {
        ...GOOD,
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x/?d=secret' } }] },
        ],
      },
      CHAT,
    ],
    [
      'an image that the server fetches, in the other form',
      { model: 'm', input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'https://x' }] }] },
      RESPONSES,
    ],
    [
      'a stored file',
      { model: 'm', input: [{ role: 'user', content: [{ type: 'input_file', file_id: 'f' }] }] },
      RESPONSES,
    ],
    ['a body that is no object', '[]', CHAT],
    ['a body that is not JSON', '{"model": "m"', CHAT],
  ])('is refused with %s', (_what, body, endpoint) => {
    expect(judge(body, endpoint)).toMatchObject({ ok: false, refusal: { rule: 'model' } })
  })

  it('has one meaning if a key occurs twice', () => {
    const judged = judge('{"model": "other", "messages": [], "model": "m"}')

    expect(judged.ok && JSON.stringify(judged.body)).toBe('{"model":"m","messages":[]}')
  })

  it('may use what the operator lists', () => {
    expect(judge({ ...GOOD, web_search_options: {} }, CHAT, ['web_search_options']).ok).toBe(true)
    expect(judge({ ...GOOD, tools: [{ type: 'web_search' }] }, RESPONSES, ['web_search']).ok).toBe(false)
    const search = { model: 'm', input: 'x', tools: [{ type: 'web_search' }] }
    expect(judge(search, RESPONSES, ['web_search']).ok).toBe(true)
    expect(judge(search, RESPONSES).ok).toBe(false)
  })
})

describe('the path of a request', () => {
  it('is one of the list, in one spelling', () => {
    expect(endpointOf('POST', '/model/v1/chat/completions')).toBe(CHAT)
    const others = [
      ...[
        '/model/v1/files',
        '/model/v1/chat/completions/',
        '/model/v1/chat/completions?x=1',
        '/model/v1//models',
      ],
      ...['/model/v1/../v1/chat/completions', '/model/v1/chat%2fcompletions', '/model/v1/CHAT/completions'],
      ...[
        '/model/chat/completions',
        '/model/v1',
        '/model',
        '/model/v1/responses/resp_1',
        '/model/v1/models/m',
      ],
    ]
    for (const url of others)
      for (const method of ['POST', 'GET', 'DELETE'])
        expect(endpointOf(method, url), `${method} ${url}`).toBeUndefined()
    expect(endpointOf('GET', '/model/v1/chat/completions')).toBeUndefined()
  })
})
