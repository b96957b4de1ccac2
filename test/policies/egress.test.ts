import { describe, expect, it } from 'vitest'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy, readEgressPolicy, readEgressPolicyText } from '../../policies/agent/egress/load.ts'
import { modeOf } from '../../policies/agent/egress/mode.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor, placementOf } from '../../policies/agent/egress/targets.ts'

const HEAD = 'apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\n'
const HEAD_AS_JSON = '{"apiVersion":"agentweaver.io/v1","kind":"EgressPolicy","name":"test"}'
const WHY = 'why: because a test needs it'

/** A file with one destination of class agent, with each setting on a separate line. */
const withDestination = (...lines: string[]) =>
  `${HEAD}classes:\n  agent:\n    - ${[...lines, WHY].join('\n      ')}\n  command: []\n`
const destination = (...lines: string[]) =>
  loadEgressPolicy(withDestination(...lines)).classes.agent[0] as NonNullable<
    ReturnType<typeof loadEgressPolicy>['classes']['agent'][number]
  >
const ALLOWED = ['host: api.example.com', 'ports: [443]', 'mode: full']

describe('the file', () => {
  it('is read, and every destination of it says why', () => {
    const { classes } = readEgressPolicy()

    expect(classes.agent.length).toBeGreaterThan(5)
    expect([...classes.agent, ...classes.command].every(({ why }) => why.length >= 10)).toBe(true)
  })

  it.each<[string, string[], string]>([
    ['an unknown key', [...ALLOWED, 'protocol: tcp'], 'line 9: classes.agent.0.protocol: is not a known key'],
    [
      'an unknown placeholder',
      ['host: ${vault}', 'ports: [443]', 'mode: full'],
      'is no placeholder; there are ${user-token-vault}',
    ],
    ['a placeholder inside a name', ['host: a.${login-host}', 'ports: [443]', 'mode: full'], 'each alone'],
    ['no port', ['host: api.example.com', 'ports: []', 'mode: full'], 'classes.agent.0.ports'],
    ['an invalid port', ['host: api.example.com', 'ports: [70000]', 'mode: full'], 'classes.agent.0.ports'],
    ['a port twice', ['host: api.github.com', 'ports: [443, 443]', 'mode: full'], 'names a port twice'],
    [
      'a resolver outside',
      ['host: one.one.one.one', 'ports: [853]', 'mode: full'],
      'names are looked up in the cluster',
    ],
    [
      'writing in read-only mode',
      ['host: pypi.org', 'ports: [443]', 'mode: read-only', 'methods: [GET, POST]'],
      'POST is not reading',
    ],
    [
      'an unsupported method',
      ['host: pypi.org', 'ports: [443]', 'mode: full', 'methods: [CONNECT]'],
      'classes.agent.0.methods',
    ],
    ['a relative path', [...ALLOWED, 'paths: [v1/**]'], '"v1/**" must start with "/"'],
    ['"**" in the middle', [...ALLOWED, 'paths: [/a/**/b]'], 'may have "**" only as the last segment'],
    ['"**" in a segment', [...ALLOWED, 'paths: [/a**]'], 'may have "**" only as the last segment'],
    ['a parent folder', [...ALLOWED, 'paths: [/a/../b]'], 'has a segment of dots only'],
    ['an empty segment', [...ALLOWED, 'paths: [/a//b]'], 'has an empty segment'],
    ['an encoded path', [...ALLOWED, 'paths: [/a%2fb]'], 'has a character that a path cannot contain'],
    ['a query', [...ALLOWED, 'paths: ["/a?b"]'], 'has a character that a path cannot contain'],
    ['a matrix parameter', [...ALLOWED, 'paths: ["/a;b"]'], 'has a character that a path cannot contain'],
    [
      'two lists of methods',
      [...ALLOWED, 'methods: [GET]', 'requests: [{methods: [GET], paths: [/a]}]'],
      'has its own methods and paths',
    ],
    [
      'writing requests in read-only mode',
      [
        'host: api.example.com',
        'ports: [443]',
        'mode: read-only',
        'requests: [{methods: [PUT], paths: [/a]}]',
      ],
      'classes.agent.0.requests: PUT is not reading',
    ],
    [
      'an upgrade in read-only mode',
      ['host: api.example.com', 'ports: [443]', 'mode: read-only', 'upgrade: websocket'],
      'on which both sides can write',
    ],
    [
      'an upgrade with reading requests',
      [...ALLOWED, 'requests: [{methods: [GET], paths: [/a]}]', 'upgrade: websocket'],
      'on which both sides can write',
    ],
    [
      'an upgrade inside TLS that is not read',
      [...ALLOWED, 'upgrade: websocket'],
      'upgrade: changes nothing',
    ],
    ['a spelling inside TLS that is not read', [...ALLOWED, 'allow: [get-body]'], 'allow: changes nothing'],
    ['an unknown spelling', [...ALLOWED, 'paths: [/a]', 'allow: [smuggling]'], 'classes.agent.0.allow.0'],
    [
      'a content network without a reason',
      ['host: pypi.org', 'ports: [443]', 'mode: full', 'fronting: accepted'],
      'needs a "frontingReason"',
    ],
    [
      'a reason without fronting',
      [...ALLOWED, 'frontingReason: because a test needs it'],
      'belongs to "fronting: accepted"',
    ],
    [
      'fronting on a host of its own',
      [...ALLOWED, 'fronting: accepted', 'frontingReason: because a test needs it'],
      'is not in the list of content networks',
    ],
    [
      'fronting where requests are limited',
      [
        'host: pypi.org',
        'ports: [443]',
        'mode: read-only',
        'fronting: accepted',
        `frontingReason: because of a test`,
      ],
      'fronting: changes nothing',
    ],
    [
      'splice on a content network',
      ['host: pypi.org', 'ports: [443]', 'mode: read-only', 'splice: allow'],
      'splice: needs "fronting: accepted" too',
    ],
    [
      'splice where no request is limited',
      ['host: api.example.com', 'ports: [443]', 'mode: full', 'phases: [setup]', 'splice: allow'],
      'splice: changes nothing',
    ],
    ['an unknown preset', ['preset: maven'], 'preset: must be one of npm, pypi, crates, go, debian'],
    ['a mode of a preset', ['preset: npm', 'mode: full'], 'classes.agent.0.mode: is not a known key'],
    ['a shared mirror', ['preset: npm', 'host: vault.azure.net'], 'is shared by all customers'],
    [
      'a prefix that ends in a slash',
      ['preset: npm', 'host: a.example.com', 'prefix: /a/'],
      'without a slash',
    ],
    ['a prefix of dots', ['preset: npm', 'host: a.example.com', 'prefix: /..'], 'must be a path'],
    [
      'paths in more than one bucket',
      ['host: storage.googleapis.com', 'ports: [443]', 'mode: read-only', 'paths: ["/*/a"]'],
      'each path must start with the name of a bucket',
    ],
    [
      'fqdn where nothing is restricted',
      ['host: pypi.org', 'ports: [443]', 'mode: full', 'fqdn: allow'],
      'changes nothing',
    ],
    [
      'an unknown phase',
      ['host: pypi.org', 'ports: [443]', 'mode: full', 'phases: [later]'],
      'classes.agent.0.phases',
    ],
  ])('is refused with %s', (_what, lines, reason) => {
    const load = () => loadEgressPolicy(withDestination(...lines))

    expect(load).toThrow(/^policies\/agent\/egress\.yaml, line \d+: /)
    expect(load).toThrow(reason)
  })

  it('is rejected with an unknown class, or no class', () => {
    expect(() => loadEgressPolicy(`${HEAD}classes:\n  agent: []\n  command: []\n  other: []\n`)).toThrow(
      'classes.other',
    )
    expect(() => loadEgressPolicy(`${HEAD}classes:\n  agent: []\n`)).toThrow('classes.command')
  })

  it('allows no port of a DNS resolver', () => {
    expect(readEgressPolicyText()).not.toMatch(/ports:.*\b(?:53|853)\b/)
  })
})

describe('placeholders', () => {
  const policy = loadEgressPolicy(withDestination('host: ${user-token-vault}', 'ports: [443]', 'mode: full'))

  it('become the names of the environment', () => {
    const { classes, absent } = resolveEgress(policy, { 'user-token-vault': 'users.vault.azure.net' })

    expect(classes.agent.map(({ host }) => host)).toEqual(['users.vault.azure.net'])
    expect(absent).toEqual([])
  })

  it('leave the destination out if the environment has no name, and report it', () => {
    const { classes, absent } = resolveEgress(policy, {})

    expect(classes.agent).toEqual([])
    expect(absent).toEqual([{ kind: 'agent', placeholder: 'user-token-vault' }])
  })

  it.each(['vault.azure.net', '*.vault.azure.net', '*.users.vault.azure.net', '10.0.0.1', 'vault.internal'])(
    'are refused as %s, as the file would be',
    (name) => {
      expect(() => resolveEgress(policy, { 'user-token-vault': name })).toThrow(
        /The environment's name for \$\{user-token-vault\} is refused/,
      )
    },
  )
})

describe('a preset', () => {
  const expanded = (...lines: string[]) => loadEgressPolicy(withDestination(...lines)).classes.agent

  it('stands for the hosts and paths that its clients read', () => {
    expect(expanded('preset: pypi').map(({ host, requests }) => [host, requests])).toEqual([
      ['pypi.org', [{ methods: ['GET', 'HEAD'], paths: ['/simple/**', '/pypi/*/json', '/pypi/*/*/json'] }]],
      ['files.pythonhosted.org', [{ methods: ['GET', 'HEAD'], paths: ['/packages/**'] }]],
    ])
  })

  it.each(['npm', 'pypi', 'crates', 'go', 'debian'])(
    '%s allows nothing that publishes, and no other key',
    (name) => {
      const destinations = expanded(`preset: ${name}`)
      const writing = destinations.flatMap(({ requests = [] }) =>
        requests.filter(({ methods }) => methods.some((method) => method !== 'GET' && method !== 'HEAD')),
      )

      expect(destinations.every((one) => modeOf(one) === 'terminate')).toBe(true)
      expect(new Set(writing.flatMap(({ paths }) => paths))).toEqual(
        new Set(
          name === 'npm' ? ['/-/npm/v1/security/advisories/bulk', '/-/npm/v1/security/audits/quick'] : [],
        ),
      )
    },
  )

  it.each(['npm', 'pypi', 'crates', 'go', 'debian'])('%s is a valid file when it is written out', (name) => {
    const { classes } = loadEgressPolicy(withDestination(`preset: ${name}`))
    const written = JSON.stringify({ ...JSON.parse(HEAD_AS_JSON), classes })

    expect(loadEgressPolicy(written).classes).toEqual(classes)
  })

  // A bundle contains the list as JSON.
  it.each(['npm', 'git\n      host: git.example.com', 'github'])(
    '%s has no value that JSON cannot represent',
    (name) => {
      const ofGit = name === 'npm' ? [] : ['mode: full', 'repositories: [team/app]']
      const { classes } = loadEgressPolicy(withDestination(`preset: ${name}`, ...ofGit))

      expect(JSON.parse(JSON.stringify(classes))).toStrictEqual(classes)
    },
  )

  it('can be a mirror below a prefix', () => {
    const [mirror, ...others] = expanded(
      'preset: crates',
      'host: packages.example.com',
      'prefix: /api/crates',
    )

    expect(others).toEqual([])
    expect(mirror?.host).toBe('packages.example.com')
    expect(mirror?.requests?.flatMap(({ paths }) => paths)).toEqual([
      ...['/api/crates/**', '/api/crates/crates/**', '/api/crates/api/v1/crates/*/*/download'],
    ])
  })
})

describe('the proxy', () => {
  it.each([
    ['mode: full', 'splice'],
    ['mode: full\n      phases: [setup]', 'splice'],
    ['mode: full\n      http: allow', 'splice'],
    ['mode: read-only', 'terminate'],
    ['mode: full\n      methods: [GET]', 'terminate'],
    ['mode: full\n      paths: [/v1/**]', 'terminate'],
    ['mode: full\n      requests: [{methods: [POST], paths: [/v1/**]}]', 'terminate'],
    ['mode: read-only\n      splice: allow', 'splice'],
  ])('with %j does %s', (line, mode) => {
    expect(modeOf(destination('host: api.example.com', 'ports: [443]', line))).toBe(mode)
  })

  it('reads requests to hosts of content networks, unless the entry accepts the risk', () => {
    const plain = destination('host: a1.cloudfront.net', 'ports: [443]', 'mode: full')
    const accepted = destination(
      ...['host: a1.cloudfront.net', 'ports: [443]', 'mode: full'],
      ...['fronting: accepted', 'frontingReason: its client pins the certificate'],
    )

    const wildcard = destination('host: "*.npmjs.org"', 'ports: [443]', 'mode: full')

    expect([plain, accepted, wildcard].map(modeOf)).toEqual(['terminate', 'splice', 'terminate'])
  })
})

describe('a target', () => {
  it('takes whole what says no more than a name and ports', () => {
    const plain = destination('host: api.github.com', 'ports: [443]', 'mode: full')

    expect(placementOf(plain, 'fqdn')).toEqual({ kind: 'whole' })
  })

  it.each([
    ['mode: read-only', 'read-only'],
    ['mode: full\n      methods: [POST]', 'methods'],
    ['mode: full\n      paths: [/v1/**]', 'paths'],
    ['mode: full\n      requests: [{methods: [POST], paths: [/v1/**]}]', 'paths'],
    ['mode: full\n      phases: [setup]', 'phases'],
    ['mode: full\n      caller: agent-host', 'caller'],
    ['mode: full\n      maxSentMiB: 5', 'maxSentMiB'],
  ])('of names leaves out a destination with %j, unless it sets fqdn: allow', (restriction, lost) => {
    const strict = destination('host: api.github.com', 'ports: [443]', restriction)
    const told = destination('host: api.github.com', 'ports: [443]', restriction, 'fqdn: allow')

    expect(placementOf(strict, 'fqdn')).toEqual({ kind: 'left out', lost: [lost] })
    expect(placementOf(told, 'fqdn')).toEqual({ kind: 'loosened', lost: [lost] })
    expect(placementOf(strict, 'proxy')).toEqual({ kind: 'whole' })
    expect(destinationsFor([strict, told], 'fqdn')).toEqual([told])
  })

  it('gets an allowlist with nothing left to default', () => {
    const policy = loadEgressPolicy(
      withDestination(
        ...['host: api.example.com', 'ports: [443]', 'mode: read-only', 'phases: [setup]'],
        'paths: [/v1/**]',
      ),
    )

    expect(allowlist(resolveEgress(policy, {}), 'agent', 'laptop')).toEqual([
      {
        host: 'api.example.com',
        ports: [443],
        methods: ['GET', 'HEAD'],
        phases: ['setup'],
        caller: 'any',
        requests: [{ methods: ['GET', 'HEAD'], paths: ['/v1/**'] }],
        authority: 'unsigned',
      },
    ])
  })

  it('of a proxy loses the limits on requests with splice: allow, and no other limit', () => {
    const strict = destination('host: api.example.com', 'ports: [443]', 'mode: read-only')
    const told = destination(
      ...['host: api.example.com', 'ports: [443]', 'mode: read-only', 'paths: [/v1/**]', 'phases: [setup]'],
      'splice: allow',
    )

    for (const target of ['proxy', 'laptop'] as const) {
      expect(placementOf(strict, target)).toEqual({ kind: 'whole' })
      expect(placementOf(told, target)).toEqual({ kind: 'loosened', lost: ['read-only', 'paths'] })
    }
    expect(placementOf(told, 'fqdn').kind).toBe('left out')
  })

  it('passes on that HTTP without TLS is allowed, and the addresses of a private endpoint', () => {
    const policy = loadEgressPolicy(withDestination(...ALLOWED, 'http: allow', 'addresses: [10.1.0.0/16]'))

    expect(allowlist(resolveEgress(policy, {}), 'agent', 'laptop')).toMatchObject([
      { http: 'allow', addresses: ['10.1.0.0/16'] },
    ])
  })

  it.each(['addresses: [10.1.0.0/33]', 'addresses: [example.com]', 'addresses: []', 'splice: allow'])(
    'refuses an entry with %s',
    (line) => {
      expect(() => loadEgressPolicy(withDestination(...ALLOWED, line))).toThrow(line.split(':')[0])
    },
  )

  it('gives commands no destination that only the agent host may have', () => {
    const policy = resolveEgress(readEgressPolicy(), {
      'user-token-vault': 'users.vault.azure.net',
      'login-host': 'login.microsoftonline.com',
      'model-host': 'model.openai.azure.com',
    })
    const credentials = ['users.vault.azure.net', 'login.microsoftonline.com']

    const all = allowlist(policy, 'agent', 'proxy')
    const agent = all.filter(({ host }) => credentials.includes(host))
    const command = allowlist(policy, 'command', 'proxy').filter(({ host }) => credentials.includes(host))
    expect(agent.map(({ caller }) => caller)).toEqual(['agent-host', 'agent-host'])
    // The egress proxy alone calls the model.
    expect(all.map(({ host }) => host)).not.toContain('model.openai.azure.com')
    expect(command).toEqual([])
  })
})
