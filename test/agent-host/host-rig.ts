import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { exportJWK } from 'jose'
import { onTestFinished } from 'vitest'
import type { ConfigureRequestInput } from '../../contracts/configure.ts'
import { SandboxSettings } from '../../contracts/policy.ts'
import { buildAgentHost } from '../../runtime/agent-host/app.ts'
import type { SetUp } from '../../runtime/agent-host/configure/configure-route.ts'
import { DecisionTable } from '../../runtime/agent-host/decisions/decision-table.ts'
import { Outbox } from '../../runtime/agent-host/outbox.ts'
import type { RunSession } from '../../runtime/agent-host/session/run-session.ts'
import { createHostStateMachine } from '../../runtime/agent-host/state.ts'
import type { RunnerLink } from '../../runtime/agent-host/toolbox/runner-link.ts'
import { silentLog } from '../../runtime/kit/log.ts'

export const TOKEN = 'A'.repeat(43)
export const INSTANCE = randomUUID()

export const aConfiguration = (change: Partial<ConfigureRequestInput> = {}): ConfigureRequestInput => ({
  runId: 'run-1',
  generation: 1,
  userId: 'user-1',
  turnBearerToken: TOKEN,
  credential: { kind: 'none' },
  agent: { kind: 'none' },
  governance: { version: '1', settings: SandboxSettings.parse({}) },
  workingDirectory: '/workspace',
  ...change,
})

export const keyPair = (): KeyObject => generateKeyPairSync('ed25519').privateKey

export async function jwkOf(privateKey: KeyObject, kid: string) {
  const { d: _private, ...jwk } = await exportJWK(privateKey)
  return { ...jwk, kid, alg: 'EdDSA', use: 'sig' }
}

/** What stands behind the bearer's scope in tests of the scope itself: nothing is ever reached. */
const NOTHING = {} as RunSession
const NO_RUNNER = {} as RunnerLink

/** AgentHost without a runner, in standby, with its keys in a file as in a pod. */
export async function startHost(options: { setUp?: SetUp; now?: () => Date } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-host-rig-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const jwksFile = join(folder, 'jwks.json')
  const privateKey = keyPair()
  const writeKeys = (keys: object[]) => writeFileSync(jwksFile, JSON.stringify({ keys }))
  writeKeys([await jwkOf(privateKey, 'k1')])
  const machine = createHostStateMachine()
  const outbox = new Outbox({ maxEvents: 100, maxBytes: 1_000_000 })
  const decisions = new DecisionTable({ timeoutMs: 1000 })
  const routes: { method: string; url: string }[] = []
  const app = buildAgentHost({
    machine,
    outbox,
    decisions,
    log: silentLog,
    ticket: { jwksFile, instanceId: INSTANCE, now: options.now ?? (() => new Date()) },
    setUp: options.setUp ?? (async () => NOTHING),
  })
  // The guarded routes are registered when the app becomes ready.
  app.addHook('onRoute', ({ method, url }) => {
    for (const each of [method].flat()) routes.push({ method: each, url })
  })
  onTestFinished(() => app.close())
  return {
    app,
    routes,
    machine,
    outbox,
    decisions,
    privateKey,
    writeKeys,
    jwksFile,
    standby: () => machine.standby(NO_RUNNER),
  }
}
