import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { loadCredentials } from '../../runtime/api/credentials/credentials.ts'
import { placeholderOf, shapeOf } from '../../runtime/api/credentials/placeholder.ts'
import { keyTexts } from '../../runtime/kit/client-certificate.ts'
import { createLog } from '../../runtime/kit/log.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'

const KEY = new Uint8Array(32).fill(7)
const VALUE = 'ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'
const wanted = { runId: 'run_1', caller: 'commands', credential: 'git' }

it.for([VALUE, `github_pat_${'a'.repeat(82)}`, 'glpat-aaaaaaaaaaaaaaaaaaaa', 'a'.repeat(300)])(
  'gives a run a placeholder of the same shape for %s',
  (value) => {
    const placeholder = placeholderOf(KEY, wanted, shapeOf(value))

    expect(placeholder).toHaveLength(value.length)
    expect(placeholder.startsWith(shapeOf(value).prefix)).toBe(true)
    expect(placeholder).not.toBe(value)
  },
)

it('gives the same placeholder in a later sandbox of the run, and another one to every other run', () => {
  const of = (changes: Partial<typeof wanted>, key = KEY) =>
    placeholderOf(key, { ...wanted, ...changes }, shapeOf(VALUE))

  expect(of({})).toBe(of({}))
  const others = [
    of({ runId: 'run_2' }),
    of({ caller: 'agent-host' }),
    of({ credential: 'other' }),
    of({}, new Uint8Array(32)),
  ]
  expect(new Set([of({}), ...others]).size).toBe(5)
})

function aFile(entry: string, value = VALUE, mode = 0o600) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-credentials-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'token'), value)
  chmodSync(join(folder, 'token'), mode)
  const file = join(folder, 'credentials.yaml')
  writeFileSync(file, `apiVersion: agentweaver.io/v1\nkind: Credentials\ncredentials: [${entry}]\n`)
  return { file, folder }
}

it('reads a value again at each use', async () => {
  const { file, folder } = aFile('{ id: git, file: token, variable: GIT_TOKEN }', `${VALUE}\n`)
  const credentials = await loadCredentials(file)
  writeFileSync(join(folder, 'token'), VALUE.replaceAll('a', 'b'))

  expect(await credentials.read('git')).toBe(VALUE.replaceAll('a', 'b'))
  expect(credentials.variableOf('git')).toBe('GIT_TOKEN')
  expect(credentials.files).toEqual([join(folder, 'token')])
  await expect(credentials.read('other')).rejects.toThrow('no such credential')
})

it('accepts files that the group of a pod reads, and none that others read', async () => {
  const entry = '{ id: git, file: token }'

  await expect(loadCredentials(aFile(entry, VALUE, 0o440).file)).rejects.toThrow('chmod 600')
  expect(await (await loadCredentials(aFile(entry, VALUE, 0o440).file, { place: 'pod' })).read('git')).toBe(
    VALUE,
  )
  await expect(loadCredentials(aFile(entry, VALUE, 0o444).file, { place: 'pod' })).rejects.toThrow(
    'can use it',
  )
  await expect(loadCredentials(aFile(entry, VALUE, 0o460).file, { place: 'pod' })).rejects.toThrow(
    'can use it',
  )
})

it.for([
  ['a file that others can read', '{ id: git, file: token }', VALUE, 0o644, 'chmod 600'],
  ['a short value', '{ id: git, file: token }', 'short', 0o600, '16 to 4096'],
  ['two values', '{ id: git, file: token }', `${VALUE}\n${VALUE}`, 0o600, 'one value'],
  ['a missing file', '{ id: git, file: absent }', VALUE, 0o600, 'cannot be used'],
  ['no source', '{ id: git }', VALUE, 0o600, 'either a file or a githubApp'],
  ['an id twice', '{ id: git, file: token }, { id: git, file: token }', VALUE, 0o600, 'an id twice'],
] as const)('does not start with %s', async ([_name, entry, value, mode, reason]) => {
  const loading = loadCredentials(aFile(entry, value, mode).file)

  await expect(loading).rejects.toThrow(reason)
  await expect(loading).rejects.not.toThrow(VALUE)
})

const policyWith = (entry: string) =>
  loadEgressPolicy(
    `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent: [${entry}]\n  command: []\n`,
  ).classes.agent

it('lists the requests of the repositories of a git server', () => {
  const entry = (mode: string) =>
    `{ preset: git, host: git.acme.dev, mode: ${mode}, repositories: [a/b], credential: git, why: a repository of the test }`

  expect(policyWith(entry('full'))).toMatchObject([
    {
      host: 'git.acme.dev',
      credential: 'git',
      requests: [
        { methods: ['GET'], paths: ['/a/b/info/refs', '/a/b.git/info/refs'] },
        {
          methods: ['POST'],
          paths: [
            ...['/a/b/git-upload-pack', '/a/b.git/git-upload-pack'],
            ...['/a/b/git-receive-pack', '/a/b.git/git-receive-pack'],
          ],
        },
      ],
    },
  ])
  expect(JSON.stringify(policyWith(entry('read-only')))).not.toContain('receive-pack')
})

it('lists no path of GitHub that leads out of the repository or changes its protection', () => {
  const [, api] = policyWith(
    '{ preset: github, mode: full, repositories: [octo/app], credential: git, why: a repository of the test }',
  )
  const paths = api?.requests?.flatMap((one) => one.paths) ?? []

  expect(api?.host).toBe('api.github.com')
  expect(paths.every((path) => path === '/repos/octo/app' || path.startsWith('/repos/octo/app/'))).toBe(true)
  expect(
    paths.filter((path) => /\*\*|\/(?:git|contents|keys|hooks|secrets|actions|collaborators)/.test(path)),
  ).toEqual([])
})

it.for([
  ['no paths', 'mode: full', 'needs "paths" or "requests"'],
  ['HTTP without TLS', 'mode: full, paths: [/a], http: allow', 'cannot be combined with "http"'],
  ['TLS that is passed on', 'mode: full, paths: [/a], splice: allow', 'cannot be combined with "splice"'],
] as const)('refuses an entry with a credential and %s', ([_name, fields, reason]) => {
  const entry = `{ host: api.acme.dev, ports: [443], ${fields}, credential: git, why: a host of the test }`

  expect(() => policyWith(entry)).toThrow(reason)
})

const CERTIFICATE = '{ id: corp, file: token, kind: client-certificate }'
const clients = createTestAuthority()
const builder = clients.clientFor('builder')

describe('a client certificate', () => {
  it('is read with its chain and its key, again at each use, and the redactor learns the key alone', async () => {
    const { file, folder } = aFile(CERTIFICATE, `words\n${builder.key}${builder.certificate}`)
    const credentials = await loadCredentials(file)
    const next = clients.clientFor('next')
    const before = await credentials.read('corp')
    writeFileSync(join(folder, 'token'), next.pem)

    expect(before).toBe(`${builder.certificate}${builder.key}`)
    expect(await credentials.read('corp')).toBe(next.pem)
    expect(credentials.isCertificate('corp')).toBe(true)
    expect(credentials.files).toEqual([join(folder, 'token')])
    expect(credentials.secrets).toEqual(keyTexts(builder))
    // A line that every certificate has would be redacted everywhere.
    expect(credentials.secrets.join('\n')).not.toContain('-----')
  })

  it('may have expired when the service starts, because only its hosts need it', async () => {
    const late = clients.clientFor('late', { from: new Date(Date.now() - 40 * 86_400_000) })

    const lines: string[] = []
    const log = createLog({ level: 'warn', write: (line) => void lines.push(line) })

    const credentials = await loadCredentials(aFile(CERTIFICATE, late.pem).file, { log })
    await loadCredentials(aFile(CERTIFICATE, builder.pem).file, { log })

    expect(credentials.ids).toEqual(['corp'])
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      expect.objectContaining({ credential: 'corp', reason: expect.stringContaining('has expired at') }),
    ])
  })

  it('that became unusable is an error that names the credential, and not the value', async () => {
    const { file, folder } = aFile(CERTIFICATE, builder.pem)
    const credentials = await loadCredentials(file)
    writeFileSync(join(folder, 'token'), builder.key)
    const reading = credentials.read('corp')

    await expect(reading).rejects.toThrow('credential corp')
    await expect(reading).rejects.toThrow('no certificate')
    await expect(reading).rejects.not.toThrow(keyTexts(builder)[1])
  })

  it.for([
    ['a token', CERTIFICATE, VALUE, 'must have one private key'],
    [
      'the key of another',
      CERTIFICATE,
      `${builder.certificate}${clients.clientFor('x').key}`,
      'does not fit',
    ],
    ['too large a file', CERTIFICATE, `${builder.pem}${' '.repeat(16_384)}`, 'not a small file'],
    [
      'a variable',
      '{ id: corp, file: token, kind: client-certificate, variable: CORP }',
      builder.pem,
      'has no "variable"',
    ],
    ['another kind', '{ id: corp, file: token, kind: password }', builder.pem, 'client-certificate'],
    ['no kind', '{ id: corp, file: token }', builder.pem, 'one value'],
  ] as const)('does not start the service with %s', async ([_name, entry, value, reason]) => {
    const loading = loadCredentials(aFile(entry, value).file)

    await expect(loading).rejects.toThrow(reason)
    await expect(loading).rejects.not.toThrow(keyTexts(builder)[1])
  })
})
