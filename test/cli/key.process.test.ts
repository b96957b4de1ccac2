import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { ApiKeyPage, CreatedApiKey } from '../../contracts/api-keys.ts'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, untilQuiet } from './run-cli.ts'

let folder: string
let service: OwnService
/** The command line of an operator. */
let env: Record<string, string>
const as = (key: string) => ({ env: { ...env, AGENTWEAVER_API_KEY: key } })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-key-cli-'))
  service = await startOwnService(folder)
  env = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey }
})
afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true, force: true })
})

const create = async (...words: string[]): Promise<CreatedApiKey> => {
  const { status, stdout, stderr } = await runCli(['key', 'create', ...words, '--json'], { env })
  expect(status, stderr).toBe(0)
  return JSON.parse(stdout)
}

describe('"agentweaver key"', () => {
  test('creates a key for another person, who uses it until it is revoked', async () => {
    const printed = await runCli(['key', 'create', 'laptop of Ada', '--owner', 'ada'], { env })
    const key = printed.stdout.trim()
    const id = /key_[0-9a-f]{32}/.exec(printed.stderr)?.[0] ?? ''
    expect(key).toMatch(/^awk_[\w-]{43}$/)
    expect(printed.stderr).toContain('role user, owner ada, expires')

    const used = await runCli(['runs', '--json'], as(key))
    const listed = await runCli(['key', 'list'], as(key))
    const revoked = await runCli(['key', 'revoke', id], { env })
    const refused = await runCli(['runs'], as(key))

    expect([used.status, revoked.status]).toEqual([0, 0])
    expect(listed.stdout).toMatch(new RegExp(`${id} +user +active .* ada +laptop of Ada`))
    expect(listed.stdout).not.toContain('local')
    expect(revoked.stdout).toContain(`${id}  revoked`)
    expect(refused.status).not.toBe(0)
    expect(refused.stderr).toContain('was revoked at')
  })

  test('creates a key whose owner and role "whoami" shows', async () => {
    const { key, id, expiresAt } = await create('me', '--owner', 'ada', '--role', 'approver', '--days', '2')
    const { stdout } = await runCli(['whoami', '--json'], as(key))
    const text = await runCli(['whoami'], as(key))

    expect(JSON.parse(stdout)).toEqual({ owner: 'ada', role: 'approver', keyId: id, expiresAt })
    expect(text.stdout).toMatch(/owner +ada\nrole +approver\n/)
  })

  test('warns of keys that a revoked key has created', async () => {
    const leaked = await create('leaked', '--role', 'operator')
    const planted = await runCli(['key', 'create', 'planted', '--json'], as(leaked.key))
    const { id } = JSON.parse(planted.stdout)

    const { stderr } = await runCli(['key', 'revoke', leaked.id], { env })

    expect(stderr).toContain(`agentweaver key revoke ${id}`)
  })

  test('is in the audit, which still verifies', async () => {
    const { id } = await create('audited', '--role', 'auditor', '--days', '3')
    await runCli(['key', 'revoke', id], { env })

    const shown = await runCli(['audit', 'export', '--format', 'jsonl'], { env })
    const verified = await runCli(['audit', 'verify'], { env })

    const records = shown.stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .filter(({ callId }) => callId === id)
    expect(records.map(({ kind, actor }) => [kind, actor])).toEqual([
      ['key.created', 'person:local'],
      ['key.revoked', 'person:local'],
    ])
    expect(verified.status).toBe(0)
  })

  test('lists keys in pages', async () => {
    await create('paged')
    const first = await runCli(['key', 'list', '--limit', '1', '--json'], { env })
    const { items, next } = JSON.parse(first.stdout) as ApiKeyPage
    const second = await runCli(['key', 'list', '--limit', '1', '--after', next ?? '', '--json'], { env })

    expect(items).toMatchObject([{ name: 'paged', createdBy: 'local' }])
    expect(JSON.parse(second.stdout).items[0].id).not.toBe(items[0]?.id)
  })

  test.each([
    [['create', 'x', '--role', 'admin'], 'The roles are user, auditor, approver, operator.'],
    [['create', 'x', '--days', '400'], '--days'],
    [['revoke', 'key_absent'], 'There is no API key key_absent.'],
  ])('%j is refused in words', async (words, message) => {
    const { status, stderr } = await runCli(['key', ...words], { env })

    expect(status).not.toBe(0)
    expect(stderr).toContain(message)
  })
})
