import { X509Certificate } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import { expect, it, onTestFinished } from 'vitest'
import { EgressState } from '../../contracts/egress.ts'
import { gitEnvironment } from '../../policies/agent/egress/trust-table.ts'
import { withAuthorities } from '../../runtime/api/egress/authorities.ts'
import { createTrust, writeTrustBundle } from '../../runtime/api/egress/trust.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'

const SECRET = new Uint8Array(32).fill(5)

function aFile(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'aw-trust-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'roots'), content)
  return join(folder, 'roots')
}

const destination = (host: string, authority?: string) => ({
  host,
  ports: [443],
  methods: 'any' as const,
  phases: ['work' as const],
  caller: 'any' as const,
  ...(authority !== undefined && { authority }),
})

const generation = (runId: string, ...destinations: ReturnType<typeof destination>[]) => ({
  runId,
  generation: 1,
  phase: 'work' as const,
  socketPath: `/run/${runId}`,
  destinations,
})

it('writes the roots of the proxy, of the public and of the operator, each once', async () => {
  const { certificate } = createTestAuthority()
  const trust = await createTrust(SECRET, aFile(`a comment\n${certificate}${certificate}`))
  const folder = mkdtempSync(join(tmpdir(), 'aw-trust-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))

  await writeTrustBundle(folder, trust)

  const written = readFileSync(join(folder, 'ca.crt'), 'utf8')
  const subjects = (written.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? []).map(
    (pem) => new X509Certificate(pem).subject,
  )
  expect(subjects[0]).toBe('CN=Agentweaver egress root')
  expect(subjects.filter((subject) => subject === 'CN=agentweaver-test-ca')).toHaveLength(1)
  expect(subjects.length).toBeGreaterThanOrEqual(rootCertificates.length + 2)
  expect(written).not.toContain('PRIVATE KEY')
})

it.each([
  ['without a certificate', 'nothing'],
  ['with a damaged certificate', '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'],
])('rejects a file of the operator %s', async (_what, content) => {
  await expect(createTrust(SECRET, aFile(content))).rejects.toThrow(/^AGENTWEAVER_EGRESS_ROOTS_FILE: /)
})

it('names an authority for exactly the terminated hosts of each sandbox', async () => {
  const { authorities } = await createTrust(SECRET)
  const generations = [
    generation('one', destination('a.example.com', 'unsigned'), destination('b.example.com')),
    generation('two', destination('c.example.com', 'unsigned')),
    generation('three', destination('a.example.com', 'unsigned')),
    generation('four', destination('b.example.com')),
  ]

  const signed = EgressState.parse(withAuthorities({ revision: 1, generations }, authorities))

  const named = signed.generations.map((one) => one.destinations.map(({ authority }) => authority))
  const [first, second] = signed.authorities ?? []
  expect(named).toEqual([[first?.digest, undefined], [second?.digest], [first?.digest], [undefined]])
  expect(signed.authorities).toHaveLength(2)
  expect(new X509Certificate(first?.certificate as string).ca).toBe(true)
})

it('names an authority for as many sandboxes as a state can have, each with other hosts', async () => {
  const { authorities } = await createTrust(SECRET)
  const generations = Array.from({ length: 300 }, (_, index) =>
    generation(`run-${index}`, destination(`h${index}.example.com`, 'unsigned')),
  )

  const signed = EgressState.parse(withAuthorities({ revision: 1, generations }, authorities))

  expect(signed.authorities).toHaveLength(300)
})

it('adds its settings of git after those that are there', () => {
  const variables = gitEnvironment(2)

  expect(variables['GIT_CONFIG_COUNT']).toBe('8')
  expect(variables['GIT_CONFIG_KEY_2']).toBe('url.https://github.com/.insteadOf')
  expect(variables['GIT_CONFIG_KEY_1']).toBeUndefined()
})
