import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it, onTestFinished } from 'vitest'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { NO_OWN_CREDENTIALS } from '../../runtime/api/credentials/user-credentials.ts'
import { LocalEgress } from '../../runtime/api/egress/local-egress.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'
import type { ReportOfRun, ReportWriter } from '../../runtime/api/egress/report-writer.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import { createTrust } from '../../runtime/api/egress/trust.ts'
import { deploymentKeysOf } from '../../runtime/api/keys/deployment-keys.ts'
import { Restrictions } from '../../runtime/api/runs/restrictions/restrictions.ts'
import { SandboxError } from '../../runtime/kit/errors.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import type { RestrictionRow } from '../../runtime/store/service-rows.ts'
import type { RunRow } from '../../runtime/store/store.ts'
import { until } from '../helpers/until.ts'
import { exchange, HOST } from './proxy-rig.ts'

const POLICY = `apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { host: ${HOST}, ports: [443], mode: full, why: a host for commands of an agent }
    - { host: spliced.agentweaver-test.com, ports: [443], mode: read-only, splice: allow, why: a host without its limit }
    - { host: api.github.com, ports: [443], mode: full, caller: agent-host, why: a host for the agent only }
    - { host: setup.agentweaver-test.com, ports: [443], mode: full, phases: [setup], addresses: [127.0.0.1], why: a host of the setup }
  command: []
`

const row = (networkEnabled: boolean) =>
  ({ owner: 'ada', settings: { network_enabled: networkEnabled } }) as RunRow
const trust = await createTrust(new Uint8Array(32))
const keysFolder = mkdtempSync(join(tmpdir(), 'aw-local-egress-keys-'))
afterAll(() => rmSync(keysFolder, { recursive: true }))
const { privateKey } = generateKeyPairSync('ed25519')
const keys = await deploymentKeysOf({ root: new Uint8Array(32), privateKey }, keysFolder)

function rig({
  networkEnabled = true,
  readRun = async () => row(networkEnabled),
  clock = () => new Date(),
}: {
  networkEnabled?: boolean
  readRun?: () => Promise<RunRow>
  clock?: () => Date
} = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-local-egress-'))
  const told: (ReportOfRun & { runId: string })[] = []
  const writer = {
    write: (runId: string, report: ReportOfRun) => told.push({ ...report, runId }),
    settled: async () => undefined,
  } as unknown as ReportWriter
  const rows: RestrictionRow[] = []
  const restrictions = new Restrictions({
    store: { engine: 'sqlite', listRestrictions: async () => [...rows] },
    log: silentLog,
  })
  const store = { readRun, listPushed: async () => [] }
  const rules = createNetworkRules(loadEgressPolicy(POLICY))
  const credentials = createRunCredentials(NO_CREDENTIALS, NO_OWN_CREDENTIALS, new Uint8Array(32))
  const egress = new LocalEgress({
    ...{ store, restrictions, rules, trust, credentials, writer, keys, log: silentLog },
    routeOf: () => undefined,
    budgets: { reserve: async () => ({ ok: true }), chargeAll: async () => undefined },
    clock,
  })
  onTestFinished(async () => {
    await egress.stop()
    rmSync(folder, { recursive: true, force: true })
  })
  const sandbox = (runId: string, kind: 'agent' | 'command' = 'agent') => ({
    runId,
    generation: 1,
    kind,
    socketPath: join(folder, runId),
    brokerPath: join(folder, `${runId}-broker`),
    podUid: runId,
    isIsolated: true,
    signal: AbortSignal.timeout(600_000),
  })
  const refusedBy = () => told.flatMap((report) => (report.type === 'denied' ? [report.data.rule] : []))
  const restrict = async (level: RestrictionRow['level'], owner = 'ada') => {
    const scope = { kind: 'owner', owner } as const
    rows.splice(0, 1, {
      scope,
      owner,
      level,
      reason: 'r',
      by: 'o',
      role: 'operator',
      at: `${Date.now()} ${level}`,
    })
    await restrictions.refresh()
  }
  return { egress, sandbox, told, rules: refusedBy, folder, restrict }
}

const CONNECT_OTHER = 'CONNECT other.agentweaver-test.com:443 HTTP/1.1\r\n\r\n'

/** The proxies that this process has started, by their command lines. */
const proxies = () =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const isOwn =
          readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1] === String(process.pid)
        return isOwn && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('/egress/server.ts')
      } catch {
        return false
      }
    })

it('starts the proxy on first need, and reports refusals to their run', async () => {
  const { egress, sandbox, told } = rig()
  expect(proxies()).toEqual([])

  const { loosened } = await egress.open(sandbox('one'))
  await egress.open(sandbox('two', 'command'))
  const answer = await exchange(sandbox('one').socketPath, CONNECT_OTHER)
  const ofAgent = await exchange(sandbox('one').socketPath, 'CONNECT api.github.com:443 HTTP/1.1\r\n\r\n')
  const ofCommand = await exchange(sandbox('two').socketPath, `CONNECT ${HOST}:443 HTTP/1.1\r\n\r\n`)
  await egress.close(sandbox('one'))

  expect(loosened).toEqual(['spliced.agentweaver-test.com'])
  expect(proxies()).toHaveLength(1)
  expect([answer, ofAgent, ofCommand].map((text) => text.slice(0, 12))).toEqual(
    new Array(3).fill('HTTP/1.1 403'),
  )
  expect(told.map(({ runId, type }) => `${runId} ${type}`)).toEqual([
    ...['one denied', 'one denied', 'two denied', 'one summary'],
  ])
})

it('opens nothing for a run without network access', async () => {
  const { egress, sandbox } = rig({ networkEnabled: false })

  expect((await egress.open(sandbox('one'))).loosened).toEqual([])
  expect(proxies()).toEqual([])
})

it('applies a restriction to open sandboxes and to new ones, until it is lifted', async () => {
  const { egress, sandbox, rules, restrict } = rig()
  await egress.open(sandbox('one'))
  const asked = async (run: string) => {
    await exchange(sandbox(run).socketPath, CONNECT_OTHER)
    return rules().at(-1)
  }

  await restrict('no-network')
  await egress.open(sandbox('two'))
  await until('the proxy has the restriction', async () => (await asked('one')) === 'restricted')
  const ofNew = await asked('two')
  await restrict('normal')
  await until('the restriction is lifted', async () => (await asked('one')) === 'not-listed')

  expect(ofNew).toBe('restricted')
})

it('waits while the store cannot be used', async () => {
  let attempts = 0
  const readRun = async () => {
    attempts += 1
    if (attempts < 3) throw new SandboxError('unavailable', 'the database refuses connections')
    return row(true)
  }
  const { egress, sandbox } = rig({ readRun })

  expect((await egress.open(sandbox('one'))).loosened).toEqual(['spliced.agentweaver-test.com'])
  expect(attempts).toBe(3)
})

it('serves the other sandboxes if one of them is gone', async () => {
  const { egress, sandbox, told } = rig()
  await egress.open(sandbox('one'))
  const [before] = proxies()

  await egress.open({ ...sandbox('gone'), socketPath: '/nonexistent/socket' })
  const answer = await exchange(sandbox('one').socketPath, CONNECT_OTHER)

  expect(answer).toMatch(/^HTTP\/1\.1 403 /)
  expect(proxies()).toEqual([before])
  expect(told[0]).toMatchObject({ runId: 'gone', data: { rule: 'proxy-unavailable' } })
})

it('has stored everything when each of two callers that close a sandbox continues', async () => {
  const { egress, sandbox, told } = rig()
  await egress.open(sandbox('one'))
  await exchange(sandbox('one').socketPath, CONNECT_OTHER)

  const first = egress.close(sandbox('one'))
  await egress.close(sandbox('one'))

  expect(told.map(({ type }) => type)).toEqual(['denied', 'summary'])
  await first
})

it('restarts a proxy that was killed, and reports it to the runs', async () => {
  const { egress, sandbox, rules } = rig()
  const { socketPath } = sandbox('one')
  await egress.open(sandbox('one'))
  const [before = ''] = proxies()

  process.kill(Number(before), 'SIGKILL')
  await until('the run has the report', () => rules().includes('proxy-unavailable'))
  await until('there is another proxy', () => proxies().some((pid) => pid !== before))
  await until('it serves the sandbox', () =>
    exchange(socketPath, CONNECT_OTHER).then(
      (text) => text.startsWith('HTTP/1.1 403'),
      () => false,
    ),
  )
})

it('ends the proxy with the service', async () => {
  const { egress, sandbox } = rig()
  await egress.open(sandbox('one'))
  const socket = connect(sandbox('one').socketPath)
  socket.on('error', () => undefined)
  const [pid = ''] = proxies()

  await egress.stop()

  expect(proxies()).not.toContain(pid)
})

it('allows the hosts of the setup only in the sandbox and in the 30 minutes of the setup', async () => {
  let now = Date.parse('2026-01-01T00:00:00Z')
  let setup: RunRow['setup']
  const { egress, sandbox, rules } = rig({
    readRun: async () => ({ ...row(true), ...(setup && { setup }) }),
    clock: () => new Date(now),
  })
  const startedAt = new Date(now).toISOString()
  /** Whether something listens at the port does not matter. */
  const isAllowedWith = async (next: RunRow['setup']) => {
    setup = next
    await egress.changed('one')
    const answer = await exchange(
      sandbox('one').socketPath,
      'CONNECT setup.agentweaver-test.com:443 HTTP/1.1\r\n\r\nnone\r\n\r\n',
    )
    return !answer.startsWith('HTTP/1.1 403 ')
  }
  await egress.open(sandbox('one'))

  expect(await isAllowedWith(undefined)).toBe(false)
  expect(await isAllowedWith({ generation: 1, startedAt }), 'the control').toBe(true)
  expect(await isAllowedWith({ generation: 2, startedAt }), 'another sandbox').toBe(false)
  expect(await isAllowedWith({ generation: 1, startedAt, endedAt: startedAt }), 'after its end').toBe(false)
  now += 30 * 60_000 - 1
  expect(await isAllowedWith({ generation: 1, startedAt }), 'a moment before').toBe(true)
  now += 1
  expect(await isAllowedWith({ generation: 1, startedAt }), 'after 30 minutes').toBe(false)
  expect(new Set(rules())).toEqual(new Set(['phase']))
})
