import { describe, expect, it } from 'vitest'
import type { EgressDestination, EgressGeneration } from '../../contracts/egress.ts'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { parseAuthority } from '../../runtime/egress/authority.ts'
import { decide, type Question } from '../../runtime/egress/decide.ts'
import { parsePath } from '../../runtime/egress/path.ts'
import type { RequestFacts } from '../../runtime/egress/request-rules.ts'

const ENTRY: EgressDestination = {
  host: 'a.example.com',
  ports: [443],
  methods: 'any',
  phases: ['setup', 'work'],
  caller: 'any',
}
const generation = (...destinations: Partial<EgressDestination>[]): EgressGeneration => ({
  runId: 'run',
  generation: 1,
  phase: 'work',
  socketPath: '/socket',
  destinations: destinations.map((one) => ({ ...ENTRY, ...one })),
})
type Asked = Partial<Pick<Question, 'caller' | 'protocol'>> & {
  readonly method?: string
  readonly path?: string
  readonly needs?: RequestFacts['needs']
}

function question(target: string, { method, path = '/', needs = [], ...more }: Asked = {}): Question {
  const parsed = parseAuthority(target)
  if (!parsed.ok) throw new Error(parsed.reason)
  const request = method === undefined ? undefined : { method, path: pathOf(path), needs }
  return { ...parsed.target, caller: 'commands', protocol: 'tls', ...more, request }
}

function pathOf(text: string) {
  const parsed = parsePath(text)
  if (!parsed.ok) throw new Error(parsed.reason)
  return parsed.path
}
const ruleOf = (state: EgressGeneration | undefined, asked: Question) => {
  const decision = decide(state, asked)
  return decision.ok ? 'allowed' : decision.refusal.rule
}

describe('a connection', () => {
  it('to the host of a credential belongs to its entry, also if a pattern before it matches the host', () => {
    const state = generation({ host: '*.example.com' }, { credential: 'token', authority: 'unsigned' })
    const decided = (target: string) => decide(state, question(target, { protocol: 'connect' }))

    expect(decided('a.example.com:443')).toMatchObject({ ok: true, destination: { credential: 'token' } })
    expect(decided('b.example.com:443')).toMatchObject({ ok: true, destination: { host: '*.example.com' } })
  })

  it('of AgentHost belongs to its own entry for the host and port, if there is one', () => {
    const own = { caller: 'agent-host' as const, requests: [{ methods: ['GET'], paths: ['/own'] }] }
    const state = generation({ credential: 'token', requests: [{ methods: ['GET'], paths: ['/any'] }] }, own)
    const asked = (caller: 'commands' | 'agent-host', path: string) =>
      ruleOf(state, question('a.example.com:443', { caller, protocol: 'https', method: 'GET', path }))

    expect(asked('agent-host', '/own')).toBe('allowed')
    expect(asked('agent-host', '/any')).toBe('path')
    expect(asked('commands', '/any')).toBe('allowed')
    expect(asked('commands', '/own')).toBe('path')
    const elsewhere = generation({ ports: [8443] }, own)
    expect(ruleOf(elsewhere, question('a.example.com:8443', { caller: 'agent-host' }))).toBe('allowed')
  })

  it('is allowed to a listed host and port', () => {
    expect(ruleOf(generation({}), question('A.Example.com.:443'))).toBe('allowed')
  })

  it.each<[string, Partial<EgressDestination>, string, Asked]>([
    ['not-listed', {}, 'b.example.com:443', {}],
    ['not-listed', {}, 'x.a.example.com:443', {}],
    ['not-listed', {}, '93.184.216.34:443', {}],
    ['not-listed', { caller: 'agent-host' }, 'a.example.com:443', {}],
    ['port', {}, 'a.example.com:8443', {}],
    ['phase', { phases: ['setup'] }, 'a.example.com:443', {}],
    ['plain-http', {}, 'a.example.com:443', { protocol: 'http', method: 'GET' }],
    [
      'method',
      { http: 'allow', methods: ['GET'] },
      'a.example.com:443',
      { protocol: 'http', method: 'POST' },
    ],
    [
      'allowed',
      { http: 'allow', methods: ['GET'] },
      'a.example.com:443',
      { protocol: 'http', method: 'GET' },
    ],
    ['allowed', { caller: 'agent-host' }, 'a.example.com:443', { caller: 'agent-host' }],
  ])('is judged as %s: entry %j, %s', (rule, entry, ...asked) => {
    const [target, more] = asked
    expect(ruleOf(generation(entry), question(target, more))).toBe(rule)
  })

  const requests = [
    { methods: ['GET', 'HEAD'], paths: ['/**'] },
    { methods: ['POST'], paths: ['/audit', '/bulk/*'] },
  ]
  it.each<[string, Partial<EgressDestination>, Asked]>([
    ['allowed', { requests }, { method: 'GET', path: '/any/path' }],
    ['allowed', { requests }, { method: 'POST', path: '/bulk/x' }],
    ['path', { requests }, { method: 'POST', path: '/publish' }],
    ['method', { requests }, { method: 'PUT', path: '/audit' }],
    ['method', { methods: ['GET'] }, { method: 'POST' }],
    ['request', {}, { method: 'GET', needs: ['websocket'] }],
    ['allowed', { upgrade: 'websocket' }, { method: 'GET', needs: ['websocket'] }],
    ['request', { allow: ['get-body'] }, { method: 'GET', needs: ['get-body', 'encoded-slash'] }],
    [
      'allowed',
      { allow: ['get-body', 'encoded-slash'] },
      { method: 'GET', needs: ['get-body', 'encoded-slash'] },
    ],
    ['request', { authority: 'x' }, { protocol: 'tls' }],
    ['allowed', { authority: 'x' }, { protocol: 'connect' }],
  ])('is judged by what the proxy reads as %s: %j, %j', (rule, entry, asked) => {
    const target = question('a.example.com:443', { protocol: 'https', ...asked })

    expect(ruleOf(generation(entry), target)).toBe(rule)
  })

  it.each([
    ['x.example.com:443', 'allowed'],
    ['x.y.example.com:443', 'not-listed'],
    ['example.com:443', 'not-listed'],
    ['xexample.com:443', 'not-listed'],
  ])('with a wildcard for one label: %s is %s', (target, rule) => {
    expect(ruleOf(generation({ host: '*.example.com' }), question(target))).toBe(rule)
  })

  it('is refused if the newest state does not list the sandbox', () => {
    expect(ruleOf(undefined, question('a.example.com:443'))).toBe('run-ended')
  })

  it('is refused with the narrowest entry that would allow it', () => {
    const decision = decide(
      generation({}),
      question('b.example.com:8443', { protocol: 'http', method: 'POST' }),
    )

    expect(decision).toMatchObject({ ok: false })
    expect(decision.ok || decision.refusal.remedy).toContain(
      '{host: b.example.com, ports: [8443], mode: full, methods: [POST], http: allow, why: what the run needs it for}',
    )
  })

  it.each([
    { protocol: 'connect' },
    ...['GET', 'POST', 'PROPFIND'].map((method) => ({ protocol: 'http', method }) as const),
  ] as const)('is allowed on a laptop by the entry that its refusal names: $protocol $method', (asked) => {
    const wanted = question('b.example.com:8443', asked)
    const refused = decide(generation({}), wanted)
    const [entry = ''] = /\{.*\}/.exec(refused.ok ? '' : refused.refusal.remedy) ?? []

    const policy = loadEgressPolicy(`apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - ${entry.replace('...', 'the suggested entry')}
  command: []
`)
    const [suggested] = allowlist(resolveEgress(policy, {}), 'agent', 'laptop')

    expect(suggested, 'the entry is not left out').toBeDefined()
    expect(decide(generation({ ...suggested } as Partial<EgressDestination>), wanted).ok).toBe(true)
  })

  it('is refused with the reason of the entry that is closest', () => {
    const state = generation({ ports: [80] }, { phases: ['setup'] })

    expect(ruleOf(state, question('a.example.com:443'))).toBe('phase')
  })
})

describe('a restricted run', () => {
  const judged = (
    restriction: 'read-only' | 'no-network',
    entry: Partial<EgressDestination>,
    more: Asked = {},
  ) => ruleOf({ ...generation(entry), restriction }, question('a.example.com:443', more))
  const http = { http: 'allow' } as const
  const terminated = { authority: 'a'.repeat(64), upgrade: 'websocket' } as const

  it.each<[string, Partial<EgressDestination>, Asked]>([
    ['restricted', {}, { protocol: 'connect' }],
    ['restricted', {}, { protocol: 'tls' }],
    ['restricted', http, { protocol: 'tls' }],
    ['allowed', terminated, { protocol: 'connect' }],
    ['allowed', terminated, { protocol: 'https' }],
    ['allowed', terminated, { protocol: 'https', method: 'GET' }],
    ['restricted', terminated, { protocol: 'https', method: 'PUT' }],
    ['restricted', terminated, { protocol: 'https', method: 'GET', needs: ['websocket'] }],
    ['allowed', http, { protocol: 'http', method: 'HEAD' }],
    ['restricted', http, { protocol: 'http', method: 'POST' }],
    ['allowed', { caller: 'agent-host' }, { caller: 'agent-host' }],
  ])('to read-only is judged as %s: entry %j, %j', (rule, entry, more) => {
    expect(judged('read-only', entry, more)).toBe(rule)
  })

  it('to no-network reaches nothing, except for its agent', () => {
    expect(judged('no-network', http, { protocol: 'http', method: 'GET' })).toBe('restricted')
    expect(judged('no-network', terminated, { protocol: 'connect' })).toBe('restricted')
    expect(judged('no-network', { caller: 'agent-host' }, { caller: 'agent-host' })).toBe('allowed')
  })
})

it('says that the settings of the run leave a host out that the list has', () => {
  const state = { ...generation({}), withheld: ['*.withheld.example.com'] }

  const decision = decide(state, question('a.withheld.example.com:443'))

  expect(decision).toMatchObject({
    ok: false,
    refusal: {
      rule: 'not-listed',
      reason: 'the settings of this run leave this host out',
      remedy: expect.stringContaining('agentweaver egress allow a.withheld.example.com --run '),
    },
  })
})
