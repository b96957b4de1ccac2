import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ClusterSummary } from '../../../devcluster/commands/up.ts'
import { whyNoNodes } from '../../../devcluster/host/privileges.ts'
import { runAgentweaver, runCommand } from './command.ts'

const UP_MS = 420_000

describe.skipIf(whyNoNodes() !== undefined)('up --service', () => {
  let folder: string
  let cluster: ClusterSummary
  const service = () => cluster.service!

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cluster-service-'))
    const { output } = await runCommand(['up', '--service', '--keep', '--json'])
    cluster = JSON.parse(output.slice(output.indexOf('{"slot"'))) as ClusterSummary
  }, UP_MS)
  afterAll(async () => {
    await runCommand(['down', '--cluster', String(cluster.slot)])
    rmSync(folder, { recursive: true, force: true })
  })

  const agentweaver = (args: readonly string[], stdin?: string) =>
    runAgentweaver(args, { home: folder, url: service().url, stdin })

  it('prints a URL and the API key, whose file only its owner can read', () => {
    const { url, apiKey, apiKeyFile } = service()

    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(readFileSync(apiKeyFile, 'utf8')).toBe(apiKey)
    expect(statSync(apiKeyFile).mode & 0o777).toBe(0o600)
  })

  it('runs a task in a gVisor pod after a login with the command line', async () => {
    const plan = join(folder, 'plan.json')
    const step = { kind: 'tool', tool: 'run_command', arguments: { command: 'cat /proc/version' } }
    writeFileSync(plan, JSON.stringify({ turns: [[step]] }))

    const login = await agentweaver(['login', '--url', service().url], service().apiKeyFile)
    const run = await agentweaver(['run', 'look', '--empty-workspace', '--plan', plan, '--yes'])

    expect(login).toMatchObject({ code: 0 })
    expect(run.output).toMatch(/gvisor/)
    expect(run).toMatchObject({ code: 0 })
  })

  it('rejects a request without the key, and a request with an unknown host name', async () => {
    const withoutKey = await fetch(`${service().url}/api/runs`)
    const foreign = await statusFor(`${service().url}/healthz`, 'evil.example')

    expect(withoutKey.status).toBe(401)
    expect(foreign).toBe(421)
  })
})

/** `fetch` does not allow another `Host` header. */
function statusFor(url: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url, { headers: { host } }, (answer) => resolve(answer.resume().statusCode)).on('error', reject)
  })
}
