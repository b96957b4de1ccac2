import { describe, expect, test } from 'vitest'
import type { AuditDraft } from '../../runtime/audit/chain.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { ownCredentials, PLACES } from '../helpers/own-credentials.ts'
import { bearer, startApp } from './harness.ts'
import { MemoryStore } from './memory-store.ts'

const VALUE = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const HOST = 'npm.corp.example.com'
const ada = { owner: 'ada', role: 'user' } as const
const bob = { owner: 'bob', role: 'user' } as const

function place() {
  const store = new MemoryStore()
  const written: AuditDraft[] = []
  const audit = {
    append: async (_tx: unknown, _run: string, drafts: readonly AuditDraft[]) => void written.push(...drafts),
  }
  return { store, written, ...ownCredentials({ store, audit }) }
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => (error instanceof SandboxError ? error.code : String(error)),
  )

describe('a sealed value', () => {
  test('is opened for its owner, kind and target, and for no other row', async () => {
    const { store, service, credentials } = place()
    const { credentialId } = await service.set(ada, 'registry', { host: HOST, value: VALUE })
    const [row] = store.userCredentials
    if (!row) throw new Error('the row was stored')
    const readAs = (change: Partial<typeof row>) => {
      store.userCredentials = [{ ...row, ...change }]
      return codeOf(credentials.read(change.owner ?? 'ada', credentialId))
    }

    expect(await credentials.read('ada', credentialId)).toEqual({ value: VALUE })
    expect(JSON.stringify(row)).not.toContain(VALUE)
    for (const change of [
      { owner: 'bob' },
      { target: 'registry.npmjs.org' },
      { user: 'other' },
      { sealed: `${row.sealed.slice(0, -2)}AA` },
      { sealed: '' },
    ])
      expect([change, await readAs(change)]).toEqual([change, 'credential_unavailable'])
    // Another kind has another id, too.
    store.userCredentials = [{ ...row, kind: 'github' }]
    expect(await codeOf(credentials.read('ada', credentialId.replace('registry', 'github')))).toBe(
      'credential_unavailable',
    )
    expect(await readAs({})).toBe('done')
  })

  test('cannot be opened with another deployment key, and says so', async () => {
    const { store, service } = place()
    const { credentialId } = await service.set(ada, 'github', { value: VALUE })
    const { credentials } = ownCredentials({ store, keyId: 'k2', root: 2 })

    await expect(credentials.read('ada', credentialId)).rejects.toThrow(
      /another deployment key; set it again/,
    )
  })

  test('differs each time, and its fingerprint is of one owner', async () => {
    const { store, service } = place()
    const first = await service.set(ada, 'github', { value: VALUE })
    const sealed = store.userCredentials[0]?.sealed
    const second = await service.set(ada, 'github', { value: VALUE })
    const others = await service.set(bob, 'github', { value: VALUE })

    expect(second.fingerprint).toBe(first.fingerprint)
    expect(store.userCredentials.map((row) => row.sealed)).not.toContain(sealed)
    expect(others.fingerprint).not.toBe(first.fingerprint)
  })
})

describe('the service', () => {
  test('shows and removes only the own credentials', async () => {
    const { service, credentials } = place()
    const set = await service.set(ada, 'github', { value: VALUE })

    expect(await service.list(bob)).toEqual({ items: [] })
    expect(await codeOf(service.remove(bob, 'github', {}))).toBe('not_found')
    expect(await codeOf(credentials.read('bob', set.credentialId))).toBe('credential_absent')
    expect(await service.list(ada)).toEqual({ items: [set] })
    expect(await credentials.read('ada', set.credentialId)).toEqual({ value: VALUE })

    await service.remove(ada, 'github', {})
    expect(await codeOf(credentials.read('ada', set.credentialId))).toBe('credential_absent')
    expect(credentials.find('ada', 'github', 'github.com')).toBeUndefined()
  })

  test('records who set and removed what, never the value', async () => {
    const { service, written } = place()
    const caller = { ...ada, apiKeyId: 'key_1' }
    const { fingerprint, credentialId } = await service.set(caller, 'github', { value: VALUE })
    await service.remove(caller, 'github', {})

    const reasons = ['kind github', 'for github.com', `fingerprint ${fingerprint}`, 'with key_1']
    const record = { callId: credentialId, actor: 'person:ada', reasons }
    expect(written).toMatchObject([
      { kind: 'credential.set', ...record },
      { kind: 'credential.removed', ...record },
    ])
    expect(JSON.stringify(written)).not.toContain(VALUE)
  })

  test('redacts a value from the moment that it is set', async () => {
    const { service, redactors } = place()
    expect(redactors.of('ada', false).text(VALUE.slice(4))).toBe(VALUE.slice(4))

    await service.set(ada, 'registry', { host: HOST, value: VALUE.slice(4) })

    expect(redactors.of('ada', false).text(`it is ${VALUE.slice(4)}`)).not.toContain(VALUE.slice(4))
    expect(redactors.text(`it is ${VALUE.slice(4)}`)).not.toContain(VALUE.slice(4))
    expect(redactors.of('bob', false).text(VALUE.slice(4))).toBe(VALUE.slice(4))
  })

  test('redacts again after a restart', async () => {
    const { store, service } = place()
    await service.set(ada, 'registry', { host: HOST, value: VALUE.slice(4) })
    const next = ownCredentials({ store })
    await next.credentials.start()

    expect(next.redactors.of('ada', false).text(VALUE.slice(4))).not.toContain(VALUE.slice(4))
  })

  test('accepts only the registries of the egress list, in every spelling', async () => {
    const { service } = place()
    const set = await service.set(ada, 'registry', { host: 'NPM.Corp.Example.com.', value: VALUE })
    expect(set.target).toBe(HOST)
    for (const host of [
      'evil.example.com',
      `${HOST}.evil.com`,
      'corp.example.com',
      '127.0.0.1',
      'npm.corp.example.com%00',
    ])
      expect([host, await codeOf(service.set(ada, 'registry', { host, value: VALUE }))]).toEqual([
        host,
        'invalid_request',
      ])
  })

  const noProxy = { ...PLACES, hosts: undefined }
  const noModel = { ...PLACES, modelServer: undefined }
  const refused = /only for credentials of the kinds git and registry/
  test.each([
    {
      what: 'a registry without a proxy',
      places: noProxy,
      more: { host: HOST },
      message: /inserts no credentials, .*egress.credentials/,
    },
    {
      what: 'a model key without a server',
      kind: 'openai-compatible',
      places: noModel,
      message: /no model server/,
    },
    { what: 'a registry without a host', message: /needs the `host`/ },
    {
      what: 'a token for a git server without a host',
      kind: 'git',
      message: /needs the `host` of the git server/,
    },
    {
      what: 'a token for a git server that is not listed',
      kind: 'git',
      more: { host: HOST },
      message: /no git server at npm.corp.example.com. The list names gitlab.corp.example.com. .*preset: git/,
    },
    {
      what: 'a token for a git server where the list names none',
      kind: 'git',
      more: { host: HOST },
      places: { modelServer: undefined, hosts: { git: new Set<string>(), registry: new Set<string>() } },
      message: /The list names no git server at all\./,
    },
    {
      what: 'a token for GitHub as one for a git server',
      kind: 'git',
      more: { host: 'github.com' },
      message: /The kind for GitHub is github/,
    },
    { what: 'a token for GitHub at a host', kind: 'github', more: { host: HOST }, message: refused },
    { what: 'a token for GitHub with a user', kind: 'github', more: { user: 'me' }, message: refused },
  ] as const)('refuses $what in words', async (one) => {
    const {
      places = PLACES,
      kind = 'registry',
      more = {},
      message,
    } = { places: undefined, kind: undefined, more: undefined, ...one }
    const { service } = ownCredentials({ store: new MemoryStore(), places })

    await expect(service.set(ada, kind, { value: VALUE, ...more })).rejects.toThrow(message)
  })
})

describe('the routes', () => {
  const to = (key: string, url = '') => ({ url: `/api/me/credentials${url}`, headers: bearer(key) })
  const put = (at: ReturnType<typeof to>, body: object | string) => ({
    method: 'PUT' as const,
    url: at.url,
    headers: { ...at.headers, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

  test('never answer or log a value', async () => {
    const { app, keys, lines, store } = startApp()
    const set = await app.inject(put(to(keys.ada, '/github'), { value: VALUE }))
    const listed = await app.inject(to(keys.ada))
    const removed = await app.inject({ method: 'DELETE', ...to(keys.ada, '/github') })
    const answers = [set, listed, removed]

    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200, 200])
    expect(listed.json().items).toEqual([set.json()])
    for (const answer of answers) expect(answer.body).not.toContain(VALUE)
    expect(lines.join('')).not.toContain(VALUE)
    expect(lines.join('')).toContain('/api/me/credentials')
    expect([...store.idempotency.values()]).toEqual([])
  })

  test.each([
    ['a line break', { value: `${VALUE}\r\nX-Injected: yes` }],
    ['a blank', { value: `${VALUE} ${VALUE}` }],
    ['a NUL', { value: `${VALUE}\0` }],
    ['a letter outside ASCII', { value: `${VALUE}ä` }],
    ['too few characters', { value: 'ghp_short' }],
    ['too many characters', { value: VALUE.repeat(200) }],
    ['one character again and again', { value: 'a'.repeat(40) }],
    ['a user with a colon', { value: VALUE, host: HOST, user: 'me:you' }],
    ['a user with a line break', { value: VALUE, host: HOST, user: 'me\r\nX-Injected: yes' }],
    ['an unknown field', { value: VALUE, owner: 'bob' }],
    ['malformed JSON', `{"value": "${VALUE}"`],
  ])('refuse %s without repeating it', async (_name, body) => {
    const { app, keys, lines } = startApp()
    const answer = await app.inject(put(to(keys.ada, '/registry'), body))

    expect(answer.statusCode).toBe(400)
    expect(answer.body).not.toContain(VALUE.slice(0, 12))
    expect(lines.join('')).not.toContain(VALUE.slice(0, 12))
    const listed = await app.inject(to(keys.ada))
    expect(listed.json()).toEqual({ items: [] })
  })

  test.each(['..', '%2e%2e', '..%2fkeys', 'github%2f..', 'GitHub', 'model-key', 'own-github-0'])(
    'have no kind %s',
    async (kind) => {
      const { app, keys, store } = startApp()
      const answer = await app.inject(put(to(keys.ada, `/${kind}`), { value: VALUE }))

      expect([400, 404]).toContain(answer.statusCode)
      expect(store.userCredentials).toEqual([])
    },
  )
})
