import { createHash } from 'node:crypto'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import type { ConfigureRequestInput, HostState } from '../../../contracts/configure.ts'
import type { CallDecision } from '../../../contracts/decisions.ts'
import type { HostEnvelope } from '../../../contracts/events.ts'
import { SandboxSettings } from '../../../contracts/policy.ts'
import { createAgentHostClient } from '../../../runtime/agent-host-client/client.ts'
import type { AgentHostAddress } from '../../../runtime/agent-host-client/connection.ts'
import { type Forgery, forge, type TicketKeys } from './forge.ts'
import { type Answer, type Connectable, send } from './raw-http.ts'

/** An AgentHost under test, local or in a pod. */
export interface HostUnderTest extends Connectable {
  readonly instanceId: string
  /** Its address, as the API receives it. */
  readonly address: AgentHostAddress
  /** Path of the workspace in its configuration. */
  readonly workingDirectory: string
  readonly close: () => Promise<void>
}

/** The AgentHosts under test and their ticket keys. */
export interface Subject {
  /** Starts a new AgentHost in standby. */
  readonly start: () => Promise<HostUnderTest>
  /** Signs tickets, and publishes keys to AgentHost. */
  readonly keys: () => TicketKeys
  /** Whether it has a projected token for `GET /identity`, as in a pod. */
  readonly hasIdentity: boolean
}

/** A new AgentHost in standby. */
export async function fresh({ start }: Subject): Promise<HostUnderTest> {
  const host = await start()
  onTestFinished(() => host.close())
  return host
}

/** One AgentHost for all tests of a block, configured if `change` is given. */
export function shared(subject: Subject, change?: Partial<ConfigureRequestInput>): () => HostUnderTest {
  let host: HostUnderTest | undefined
  beforeAll(async () => {
    host = await subject.start()
    if (change) assertConfigured(await configure(subject, host, { change }))
  })
  afterAll(() => host?.close())
  return () => {
    if (!host) throw new Error('the AgentHost of these tests did not start')
    return host
  }
}

function assertConfigured({ status, text }: Answer): void {
  if (status !== 200) throw new Error(`the configuration was answered ${status}: ${text}`)
}

export const BEARER = createHash('sha256').update('the bearer of run-1').digest('base64url')
export const never = new AbortController().signal

export const aConfiguration = (
  host: Pick<HostUnderTest, 'workingDirectory'>,
  change: Partial<ConfigureRequestInput> = {},
): ConfigureRequestInput => ({
  runId: 'run-1',
  generation: 1,
  userId: 'user-1',
  turnBearerToken: BEARER,
  digestKey: createHash('sha256').update('the digest key of run-1').digest('base64url'),
  credential: { kind: 'none' },
  agent: { kind: 'none' },
  governance: { version: '1', settings: SandboxSettings.parse({}) },
  workingDirectory: host.workingDirectory,
  ...change,
})

export interface Attempt {
  readonly change?: Partial<ConfigureRequestInput>
  /** Replaces the configuration as the body. */
  readonly body?: string
  readonly forgery?: Forgery
  /** Replaces the signed ticket. */
  readonly ticket?: string
}

/** Sends `POST /configure` on a new connection. */
export async function configure(subject: Subject, host: HostUnderTest, attempt: Attempt = {}) {
  const body = attempt.body ?? JSON.stringify(aConfiguration(host, attempt.change))
  const runId = attempt.change?.runId ?? 'run-1'
  const to = { instanceId: host.instanceId, runId, body }
  const ticket = attempt.ticket ?? forge(subject.keys(), to, attempt.forgery)
  return send(host, {
    method: 'POST',
    path: '/configure',
    headers: { authorization: `Bearer ${ticket}`, 'content-type': 'application/json' },
    body,
  })
}

export async function stateOf(host: HostUnderTest): Promise<HostState> {
  const { json } = await send(host, { method: 'GET', path: '/healthz' })
  return (json as { state: HostState }).state
}

/** A configured AgentHost and a client with its bearer. */
export async function aConfiguredHost(subject: Subject, change: Partial<ConfigureRequestInput> = {}) {
  const host = await fresh(subject)
  assertConfigured(await configure(subject, host, { change }))
  const client = createAgentHostClient(host.address, BEARER)
  onTestFinished(() => client.close())
  return { ...host, client }
}

export type ConfiguredHost = Awaited<ReturnType<typeof aConfiguredHost>>

type IsLast = (envelope: HostEnvelope) => boolean

/** Decides about a call. Undefined leaves it open. */
type Decide = (callId: string) => CallDecision | undefined

const release: Decide = (callId) => ({ callId, outcome: 'release' })

/**
 * Collects events after a sequence number, up to the first that matches. Calls are released unless the test
 * decides otherwise.
 */
export async function collect(
  { client }: Pick<ConfiguredHost, 'client'>,
  isLast: IsLast,
  { after = 0, decide = release }: { after?: number; decide?: Decide } = {},
): Promise<HostEnvelope[]> {
  const stop = AbortSignal.timeout(120_000)
  const seen: HostEnvelope[] = []
  for await (const envelope of client.events(after, stop)) {
    seen.push(envelope)
    const { event } = envelope
    const isOpen = event.type === 'tool.call' && event.data.verdict !== 'deny'
    const decision = isOpen ? decide(event.data.callId) : undefined
    if (decision) await client.decide({ ackedThrough: 0, decisions: [decision] }, stop)
    if (isLast(envelope)) return seen
  }
  throw new Error(`the stream ended after ${seen.length} events`)
}

export const turnEnded: IsLast = ({ event }) => event.type === 'turn.ended'
export const called: IsLast = ({ event }) => event.type === 'tool.call'
export const exited =
  (commandId: string): IsLast =>
  ({ event, commandId: of }) =>
    event.type === 'command.exited' && of === commandId

/** Returns whether the workspace contains the file. Tests use it to detect effects. */
export async function hasFile({ client }: Pick<ConfiguredHost, 'client'>, path: string): Promise<boolean> {
  const { result } = await client.file({ op: 'read', path }, new Uint8Array(), never)
  return result.ok
}

export async function textOf({ client }: Pick<ConfiguredHost, 'client'>, path: string): Promise<string> {
  const { payload } = await client.file({ op: 'read', path }, new Uint8Array(), never)
  return Buffer.from(payload).toString('utf8')
}
