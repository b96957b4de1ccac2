import { createServer } from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { EGRESS_RULE_HEADER, type EgressDestination } from '../../contracts/egress.ts'
import { until } from '../helpers/until.ts'
import { type Answer, KEY, modelRig, POD, QUESTION, tokenOf } from './model-rig.ts'
import { HOST, listening, OTHER, portOf } from './proxy-rig.ts'

const errorOf = (text: string) => JSON.parse(text).error as { message: string; code: string }
const json =
  (body: unknown, headers: Record<string, string> = {}): Answer =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...headers })
    response.end(JSON.stringify(body))
  }

describe('a request of an agent to its model', () => {
  it('reaches the server with the key, and the agent has only a token', async () => {
    const { ask, requests, reports, denied } = await modelRig()

    const answer = await ask()

    expect(answer).toMatchObject({ status: 200, text: expect.stringContaining('[DONE]') })
    expect(requests).toMatchObject([{ url: '/base/v1/chat/completions', body: JSON.stringify(QUESTION) }])
    const { headers } = requests[0] ?? {}
    expect(headers).toMatchObject({ authorization: `Bearer ${KEY}`, 'accept-encoding': 'identity' })
    expect(headers).not.toHaveProperty('x-custom')
    expect(answer.headers.get('set-cookie')).toBeNull()
    expect(reports).toContainEqual(
      expect.objectContaining({
        type: 'credential-used',
        data: { credentialId: 'model-key', host: HOST, count: 1 },
      }),
    )
    expect(denied()).toEqual([])
  })

  it('has no credential if the server needs none, and the key in another header if the operator says so', async () => {
    const open = await modelRig({ hasKey: false, isTls: false })
    expect((await open.ask()).status).toBe(200)
    expect(open.requests[0]?.headers).not.toHaveProperty('authorization')

    const azure = await modelRig({ route: { header: 'api-key' } })
    expect((await azure.ask()).status).toBe(200)
    expect(azure.requests[0]?.headers).toMatchObject({ 'api-key': KEY })
    expect(azure.requests[0]?.headers).not.toHaveProperty('authorization')
  })

  it('gets the answer as it arrives', async () => {
    const { promise: mayEnd, resolve: end } = Promise.withResolvers<void>()
    const { url } = await modelRig({
      answer: (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: first\n\n')
        void mayEnd.then(() => response.end('data: last\n\n'))
      },
    })

    const response = await fetch(`${url}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify(QUESTION),
      headers: { authorization: `Bearer ${await tokenOf()}` },
    })
    const reader = response.body?.getReader()
    const first = await reader?.read()
    expect(new TextDecoder().decode(first?.value)).toBe('data: first\n\n')
    end()
    expect(new TextDecoder().decode((await reader?.read())?.value)).toBe('data: last\n\n')
  })

  it('is cancelled at the server when the agent leaves, and takes no place of the next', async () => {
    let [waiting, cancelled] = [0, 0]
    const { ask } = await modelRig({
      answer: (request, response) => {
        if (waiting === 8) return json({ choices: [] })(request, response)
        waiting += 1
        response.once('close', () => {
          cancelled += 1
        })
      },
    })
    const leave = new AbortController()
    const left = Array.from({ length: 8 }, () => ask(QUESTION, { signal: leave.signal }))
    await until('the server has all requests', () => waiting === 8)
    leave.abort()
    for (const one of left) await expect(one).rejects.toThrow(/abort/)

    await until('the server knows', () => cancelled === 8)

    expect((await ask()).status).toBe(200)
  })

  it('is refused for another model, another endpoint and a tool of the server, also later on a connection', async () => {
    const { ask, send, requests, denied, serverPort } = await modelRig()

    const model = await ask({ ...QUESTION, model: 'other' })
    const tool = await ask({ ...QUESTION, tools: [{ type: 'web_search' }] })
    const path = await ask(QUESTION, { path: '/files' })
    const body = (name: string) => JSON.stringify({ ...QUESTION, model: name })
    const token = await tokenOf()
    const head = (name: string) =>
      `POST /model/v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\nContent-Length: ${body(name).length}\r\n\r\n${body(name)}`
    const { text } = await send(head('m') + head('other'))
    await until('both are answered', () => text().includes('"code":"model"'))

    for (const { status } of [model, tool, path]) expect(status).toBe(400)
    expect(errorOf(model.text)).toMatchObject({
      code: 'model',
      message: expect.stringMatching(/only the model m, not "other"/),
    })
    expect(errorOf(tool.text).message).toMatch(/web_search.*outside the sandbox.*operator/)
    expect(errorOf(path.text)).toMatchObject({ code: 'path' })
    expect(requests).toHaveLength(1)
    expect(denied().map(({ host, port, rule }) => ({ host, port, rule }))).toEqual(
      ['model', 'path'].map((rule) => ({ host: HOST, port: serverPort, rule })),
    )
  })

  it.each([
    '/model/v1/../../internal/egress/control',
    '/model/v1/chat/completions/../files',
    '/model/v1/chat%2Fcompletions',
    '/model/v1\\chat\\completions',
    '/model//v1/chat/completions',
    '/model/v1/chat/completions?api-version=1',
    '/model',
  ])('is refused for the path %s', async (path) => {
    const { send, requests } = await modelRig()
    const body = JSON.stringify(QUESTION)
    const ask = (target: string, token: string) =>
      `POST ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`

    const { closed } = await send(ask(path, await tokenOf()))
    expect((await closed).toString()).toMatch(/^HTTP\/1\.1 4\d\d /)
    expect(requests).toEqual([])

    const control = await send(ask('/model/v1/chat/completions', await tokenOf()))
    expect((await control.closed).toString()).toMatch(/^HTTP\/1\.1 200 /)
  })

  it('is refused if its body is huge or compressed', async () => {
    const { ask, requests } = await modelRig({ limits: { modelBodyBytes: 1000 } })

    const huge = await ask({ ...QUESTION, user: 'x'.repeat(2000) })
    const zipped = await ask(undefined, {
      body: gzipSync(JSON.stringify(QUESTION)),
      headers: { 'content-encoding': 'gzip' },
    })

    expect(errorOf(huge.text).message).toMatch(/longer than 1000 bytes/)
    expect(errorOf(zipped.text).message).toMatch(/compressed/)
    await expect(ask({ ...QUESTION, user: 'x'.repeat(2_000_000) })).rejects.toThrow()
    expect(requests).toEqual([])
    expect((await ask()).status).toBe(200)
  })
})

describe('a token', () => {
  it('of commands does not reach the model', async () => {
    const { ask, requests, denied } = await modelRig()

    const refused = await ask(QUESTION, { token: await tokenOf({ caller: 'commands' }) })

    expect(refused.status).toBe(400)
    expect(errorOf(refused.text).message).toMatch(/only the agent itself may call the model/)
    expect(denied()).toMatchObject([{ rule: 'not-listed' }])
    expect(requests).toEqual([])
  })

  it('of another run reaches only the model of that run, and the token of no run reaches nothing', async () => {
    const { ask, apply, state, requests } = await modelRig({ hasKey: false })
    await apply(state(), state({ models: ['n'] }, 'run-2'))
    const token = await tokenOf({ runId: 'run-2' })

    expect((await ask(QUESTION, { token })).status).toBe(400)
    expect((await ask({ ...QUESTION, model: 'n' }, { token })).status).toBe(200)
    expect(requests).toHaveLength(1)
    const others = [{ runId: 'ended' }, { generation: 2 }, { pod: { ...POD, uid: 'pod-2' } }]
    for (const other of others)
      expect((await ask(QUESTION, { token: await tokenOf(other) })).status).toBe(403)
    expect(requests).toHaveLength(1)
  })

  it('that has ended, is forged, or is in the header for proxies is not accepted', async () => {
    const { ask, send, requests } = await modelRig()
    const token = await tokenOf()
    const old = await tokenOf({ now: new Date(Date.now() - 3_600_000) })

    for (const bad of [old, `${token.slice(0, -8)}AAAAAAAA`, 'x'])
      expect((await ask(QUESTION, { token: bad })).status).toBe(401)
    const head = `POST /model/v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n`
    const { closed } = await send(`${head}Proxy-Authorization: Bearer ${token}\r\n\r\n`)
    expect((await closed).toString()).toMatch(/^HTTP\/1\.1 401 /)
    expect(requests).toEqual([])
  })

  it('of the agent opens no other way than the list has', async () => {
    const destination: EgressDestination = {
      ...{ host: OTHER, ports: [443], methods: 'any', phases: ['work'], caller: 'any' },
      addresses: ['127.0.0.1'],
    }
    const { send, serverPort } = await modelRig({ destinations: [destination] })
    const token = await tokenOf()
    const connect = async (target: string) =>
      send(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Bearer ${token}\r\n\r\n`)

    const toServer = await connect(`${HOST}:${serverPort}`)
    expect((await toServer.closed).toString()).toMatch(/^HTTP\/1\.1 403 .*not in the list/s)
    const body = JSON.stringify(QUESTION)
    const absolute = await send(
      `POST http://${HOST}:${serverPort}/base/v1/files HTTP/1.1\r\nHost: ${HOST}:${serverPort}\r\nConnection: close\r\nProxy-Authorization: Bearer ${token}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    expect((await absolute.closed).toString()).toMatch(/^HTTP\/1\.1 403 /)
    const listed = await connect(`${OTHER}:443`)
    // Allowed, but no server listens there.
    expect((await listed.closed).toString()).toMatch(/^HTTP\/1\.1 502 /)
  })
})

describe('a model server', () => {
  it('is not followed to another address', async () => {
    const visits: string[] = []
    const elsewhere = await listening(
      createServer((request, response) => {
        visits.push(request.url ?? '')
        response.end('{}')
      }),
    )
    const location = `http://127.0.0.1:${portOf(elsewhere)}/take`
    const { ask, denied } = await modelRig({
      answer: (_request, response) => response.writeHead(307, { location }).end(),
    })

    const refused = await ask()

    expect(refused.status).toBe(400)
    expect(refused.headers.get('location')).toBeNull()
    expect(errorOf(refused.text).message).toMatch(/redirects are not followed/)
    expect(denied()).toMatchObject([{ rule: 'model', host: HOST }])
    expect(visits).toEqual([])
  })

  it.each([
    ['in a body', json({ error: `bad key ${KEY}` })],
    ['in base64', json({ error: Buffer.from(`key: ${KEY}.`).toString('base64') })],
    ['in a header', json({}, { 'x-request-id': KEY })],
    ['in a status of 401', ((_request, response) => response.writeHead(401).end(KEY)) as Answer],
    ['in a compressed body', json({}, { 'content-encoding': 'gzip' })],
  ])('cannot show the key to the agent %s', async (_how, answer) => {
    const { ask, denied } = await modelRig({ answer })

    const seen = await ask().catch((error: unknown) => ({ text: String(error), headers: new Headers() }))

    const all = `${seen.text} ${[...seen.headers].join(' ')}`
    expect(all).not.toContain(KEY)
    expect(all).not.toContain(Buffer.from(KEY).toString('base64').slice(4, 20))
    expect(denied()).toMatchObject([{ rule: expect.stringMatching(/^credential/), host: HOST }])
  })

  it('that cuts a stream is reported as cut, and the next request works', async () => {
    let requests = 0
    const { ask } = await modelRig({
      answer: (request, response) => {
        requests += 1
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write('data: {"choices":[]}\n\n', () => {
          if (requests === 1) setImmediate(() => request.socket.destroy())
          else response.end()
        })
      },
    })

    await expect(ask()).rejects.toThrow()
    expect((await ask()).status).toBe(200)
  })

  it('is reached only with a valid certificate, and without TLS only inside a private network', async () => {
    const wrong = await modelRig()
    await wrong.apply(
      wrong.state({ upstream: `https://unknown.agentweaver-test.com:${wrong.serverPort}/v1` }),
    )
    const certificate = await wrong.ask()
    const open = await modelRig({ isTls: false, hasKey: false, resolve: async () => ['93.184.215.14'] })
    const plain = await open.ask()
    const strict = await modelRig({ hasKey: false })
    const { isPrivateAllowed: _allowed, ...route } = strict.state().modelRoute
    await strict.apply({ ...strict.state(), modelRoute: route })
    const privately = await strict.ask()

    expect(errorOf(certificate.text)).toMatchObject({ code: 'certificate' })
    expect(errorOf(plain.text)).toMatchObject({ code: 'address' })
    expect(errorOf(privately.text)).toMatchObject({ code: 'address' })
    for (const { requests } of [wrong, open, strict]) expect(requests).toEqual([])
  })
})

it('ends the requests of a frozen run, and asks the agent to repeat them until the restriction is lifted', async () => {
  const { ask, apply, state, requests, denied } = await modelRig({
    answer: (_request, response) => {
      response.writeHead(200).write('data: first\n\n')
      if (requests.length > 1) response.end()
    },
  })
  const open = ask().catch((error: unknown) => error)
  await until('the server has the request', () => requests.length === 1)

  await apply(state({ isFrozen: true }))

  expect(await open).toBeInstanceOf(Error)
  // A conversation is larger than what the sockets hold.
  const long = { ...QUESTION, messages: [{ role: 'user', content: 'x'.repeat(8_000_000) }] }
  const refused = await ask(long)
  expect(refused.status).toBe(503)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  expect(refused.headers.get(EGRESS_RULE_HEADER)).toBe('restricted')
  expect(errorOf(refused.text)).toMatchObject({
    code: 'restricted',
    message: expect.stringContaining('frozen'),
  })
  expect(denied().map(({ rule }) => rule)).toContain('restricted')
  expect(requests).toHaveLength(1)

  await apply(state())
  expect((await ask(long)).status).toBe(200)
})

it('says so if the process that inserts the key does not run', async () => {
  const { ask, apply, state, requests } = await modelRig()
  await apply(state({ brokerPath: '/nonexistent/socket' }))

  const refused = await ask()

  expect(refused.status).toBe(503)
  expect(refused.text).toMatch(/the process that inserts credentials is not running/)
  expect(requests).toEqual([])
})

it('forwards Retry-After of a busy server, and removes the egress rule header', async () => {
  const headers = { 'retry-after': '7', [EGRESS_RULE_HEADER]: 'restricted' }
  const { ask } = await modelRig({
    answer: (_request, response) => response.writeHead(503, headers).end('{}'),
  })

  const busy = await ask()

  expect([busy.status, busy.headers.get('retry-after')]).toEqual([503, '7'])
  expect(busy.headers.get(EGRESS_RULE_HEADER)).toBeNull()
})
