import { describe, expect, it } from 'vitest'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { hostFault } from '../../policies/agent/egress/host.ts'
import { loadEgressPolicy, readEgressPolicy, readEgressPolicyText } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { destinationsFor, placementOf } from '../../policies/agent/egress/targets.ts'

const HEAD = 'apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\n'
const WHY = 'why: because a test needs it'

/** A file with one destination of class agent, with each setting on a separate line. */
const withDestination = (...lines: string[]) =>
  `${HEAD}classes:\n  agent:\n    - ${[...lines, WHY].join('\n      ')}\n  command: []\n`
const destination = (...lines: string[]) =>
  loadEgressPolicy(withDestination(...lines)).classes.agent[0] as NonNullable<
    ReturnType<typeof loadEgressPolicy>['classes']['agent'][number]
  >
const ALLOWED = ['host: api.example.com', 'ports: [443]', 'mode: full']

describe('a host', () => {
  it.each([
    'api.github.com',
    'registry.npmjs.org',
    'my-vault.vault.azure.net',
    'resource.openai.azure.com',
    'account.blob.core.windows.net',
    'me.github.io',
    '*.githubusercontent.example.com',
    '*.npmjs.org',
    '*.my-vault.vault.azure.net',
    'xn--bcher-kva.ch',
  ])('accepts %s', (host) => {
    expect(hostFault(host)).toBeUndefined()
  })

  it.each([
    ['*', 'every name'],
    ['*.com', 'com is a public suffix'],
    ['com', 'is a public suffix'],
    ['*.co.uk', 'co.uk is a public suffix'],
    ['co.uk', 'use the host: <host>.co.uk'],
    [
      '*.vault.azure.net',
      'use the name of your vault: <vault>.vault.azure.net, or the placeholder user-token-vault',
    ],
    ['vault.azure.net', 'use the name of your vault'],
    ['*.openai.azure.com', 'use the name of your resource: <resource>.openai.azure.com'],
    ['*.blob.core.windows.net', 'use the name of your account: <account>.blob.core.windows.net'],
    ['*.github.io', "is shared by all customers of its provider; use one tenant's name: <name>.github.io"],
    ['*.githubusercontent.com', 'is shared by all customers'],
    ['*.s3.amazonaws.com', 'is shared by all customers'],
    ['storage.googleapis.com', 'use the name of your bucket'],
    ['*.azure.net', 'has other tenants below vault.azure.net'],
    ['*.windows.net', 'has other tenants below'],
    ['*.nip.io', 'resolve to any address that they contain'],
    ['*.sslip.io', 'resolve to any address that they contain'],
    ['*.*.example.com', 'more than one "*"'],
    ['api.*.com', 'more than one "*"'],
    ['a*.example.com', 'more than one "*"'],
    ['*example.com', 'matches parts of a label'],
    ['**.example.com', 'matches parts of a label'],
    ['API.github.com', '"api.github.com"'],
    ['api.github.com.', 'must not end in a dot'],
    ['10.0.0.1', 'is an address'],
    ['169.254.169.254', 'is an address'],
    ['::1', 'is an address'],
    ['localhost', 'is not a full host name'],
    ['api.github.com:443', 'is not a full host name'],
    ['https://api.github.com', 'is not a full host name'],
    ['api github.com', 'is not a full host name'],
    ['api..github.com', 'is not a full host name'],
    ['', 'is not a full host name'],
    ['kubernetes.default.svc', 'is an internal name'],
    ['kube-dns.kube-system.svc.cluster.local', 'is an internal name'],
    ['metadata.google.internal', 'is an internal name'],
    ['printer.lan', 'is an internal name'],
    ['0x7f.1', 'is not a full host name'],
    ['api.nosuchsuffix', 'ends in a suffix that does not exist on the internet'],
    ['a'.repeat(64).concat('.com'), 'is not a full host name'],
    [`${'a.'.repeat(130)}com`, 'is not a full host name'],
    ['bücher.example.org', 'is not a full host name'],
  ])('may not be %j: %s', (host, reason) => {
    expect(hostFault(host)).toContain(reason)
  })
})

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

  it('is rejected with a duplicate destination, an unknown class, or no class', () => {
    const twice = withDestination(
      ...ALLOWED.map((line) => line.replace('api.example.com', 'pypi.org')),
    ).replace(
      '  command: []',
      `    - host: pypi.org\n      ports: [443]\n      mode: read-only\n      ${WHY}\n  command: []`,
    )

    expect(() => loadEgressPolicy(twice)).toThrow('pypi.org:443 is named a second time')
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

describe('a target', () => {
  it('takes whole what says no more than a name and ports', () => {
    const plain = destination('host: api.github.com', 'ports: [443]', 'mode: full')

    expect(placementOf(plain, 'fqdn')).toEqual({ kind: 'whole' })
  })

  it.each([
    ['mode: read-only', 'read-only'],
    ['mode: full\n      methods: [POST]', 'methods'],
    ['mode: full\n      phases: [setup]', 'phases'],
    ['mode: full\n      caller: agent-host', 'caller'],
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
        'host: pypi.org',
        'ports: [443]',
        'mode: read-only',
        'phases: [setup]',
        'splice: allow',
      ),
    )

    expect(allowlist(resolveEgress(policy, {}), 'agent', 'laptop')).toEqual([
      { host: 'pypi.org', ports: [443], methods: ['GET', 'HEAD'], phases: ['setup'], caller: 'any' },
    ])
  })

  it('of the laptop leaves out a destination whose methods it cannot see, unless it sets splice: allow', () => {
    const strict = destination('host: pypi.org', 'ports: [443]', 'mode: read-only')
    const told = destination('host: pypi.org', 'ports: [443]', 'mode: read-only', 'splice: allow')

    expect(placementOf(strict, 'laptop')).toEqual({ kind: 'left out', lost: ['read-only'] })
    expect(placementOf(told, 'laptop')).toEqual({ kind: 'loosened', lost: ['read-only'] })
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
    const credentials = ['users.vault.azure.net', 'login.microsoftonline.com', 'model.openai.azure.com']

    const agent = allowlist(policy, 'agent', 'proxy').filter(({ host }) => credentials.includes(host))
    const command = allowlist(policy, 'command', 'proxy').filter(({ host }) => credentials.includes(host))
    expect(agent.map(({ caller }) => caller)).toEqual(['agent-host', 'agent-host', 'agent-host'])
    expect(command).toEqual([])
  })
})
