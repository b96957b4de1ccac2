import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OwnService, startOwnService } from './own-service.ts'
import { runCli, startAtTerminal, untilQuiet } from './run-cli.ts'

const VALUE = 'npm_0123456789abcdefghijklmnopqrstuvwxyz'
const REGISTRY = 'registry.npmjs.org'

let folder: string
let service: OwnService
let env: Record<string, string>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aw-credential-cli-'))
  service = await startOwnService(folder)
  env = { AGENTWEAVER_URL: service.url, AGENTWEAVER_API_KEY: service.apiKey }
})
afterAll(async () => {
  await service.stop()
  await untilQuiet(folder)
  await rm(folder, { recursive: true, force: true })
})

const credential = (words: readonly string[], input = '') => runCli(['credential', ...words], { env, input })

describe('"agentweaver credential"', () => {
  test('sets a credential from standard input, lists it without its value, and removes it', async () => {
    const set = await credential(['set', 'registry', '--host', REGISTRY], `${VALUE}\n`)
    const listed = await credential(['list'])
    const json = await credential(['list', '--json'])
    const removed = await credential(['remove', 'registry', '--host', REGISTRY])
    const after = await credential(['list', '--json'])

    expect(set.stderr).toBe('The value was not checked: registries have no common request for it.\n')
    expect(set.stdout).toMatch(
      /^Your runs use this registry credential for registry\.npmjs\.org \(fingerprint [0-9a-f]{16}\)\.\n$/,
    )
    expect(listed.stdout).toMatch(/registry +registry\.npmjs\.org +[0-9a-f]{16} +\d+ s ago +never/)
    expect(JSON.parse(json.stdout).items).toMatchObject([{ kind: 'registry', target: REGISTRY }])
    expect(removed.stdout).toBe(`registry for ${REGISTRY}  removed\n`)
    expect(JSON.parse(after.stdout)).toEqual({ items: [] })
    for (const { stdout, stderr } of [set, listed, json, removed, after])
      expect(`${stdout}${stderr}`).not.toContain(VALUE)
  })

  test('asks for the value at a terminal without showing it', async () => {
    await using terminal = startAtTerminal(['credential', 'set', 'registry', '--host', REGISTRY], { env })
    await terminal.shows('Value of registry registry.npmjs.org: ')
    terminal.type(`${VALUE}\r`)

    expect(await terminal.exited).toBe(0)
    expect(terminal.screen()).toContain('Your runs use this registry credential')
    expect(terminal.screen()).not.toContain(VALUE)
    await credential(['remove', 'registry', '--host', REGISTRY])
  })

  test('is in the audit, which still verifies', async () => {
    await credential(['set', 'registry', '--host', REGISTRY], VALUE)
    await credential(['remove', 'registry', '--host', REGISTRY])

    const shown = await runCli(['audit', 'export', '--format', 'jsonl'], { env })
    const verified = await runCli(['audit', 'verify'], { env })

    expect(shown.stdout).toContain('"kind":"credential.set"')
    expect(shown.stdout).toContain('"kind":"credential.removed"')
    expect(shown.stdout).not.toContain(VALUE)
    expect(verified.status).toBe(0)
  })

  test('asks no server with --no-check', async () => {
    const { status, stderr } = await credential(['set', 'registry', '--host', REGISTRY, '--no-check'], VALUE)

    expect(status).toBe(0)
    expect(stderr).toBe('The value was not checked: you asked to store it without a check.\n')
  })

  test.each([
    [['set', 'password'], VALUE, 'The kinds are github, git, openai-compatible, registry.'],
    [['set', 'registry'], VALUE, 'Name the host: --host npm.corp.example.com.'],
    [['set', 'git'], VALUE, 'Name the host: --host gitlab.example.com.'],
    [['set', 'git', '--host', 'evil.example.com'], VALUE, 'has no git server at evil.example.com'],
    [['set', 'github'], '', 'No value was given.'],
    [['set', 'github'], `${VALUE}\n${VALUE}`, 'must be one line of 16 to 4096 visible ASCII characters'],
    [['set', 'github', VALUE], '', 'too many arguments'],
    [['set', 'registry', '--host', 'evil.example.com'], VALUE, 'has no package registry at evil.example.com'],
    [['remove', 'openai-compatible'], '', 'You have not set a credential openai-compatible.'],
  ])('%j is refused in words', async (words, stdin, message) => {
    const { status, stderr } = await credential(words, stdin)

    expect(status).not.toBe(0)
    expect(stderr).toContain(message)
    expect(stderr).not.toContain(VALUE)
  })
})
