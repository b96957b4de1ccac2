import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { ConfigureRequestInput } from '../../contracts/configure.ts'
import type { HostEnvelope } from '../../contracts/events.ts'
import { createAgentHostClient } from '../../runtime/agent-host-client/client.ts'
import { signTicket } from '../../runtime/api/keys/ticket.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { type HostProcessOptions, startHostProcess } from '../../runtime/sandboxes/local/host-process.ts'
import { selectIsolation } from '../../runtime/sandboxes/local/isolation.ts'
import { bundledHost } from '../helpers/bundled-host.ts'
import { aConfiguration, jwkOf, keyPair, TOKEN } from './host-rig.ts'

const never = new AbortController().signal

interface HostStart extends Partial<Pick<HostProcessOptions, 'log' | 'logLevel'>> {
  /** @default the bundled AgentHost */
  readonly entry?: string
}

/** Starts a real AgentHost and its runner on a Unix socket, with a client that has the ticket key. */
export async function startHostOnSocket({ log = silentLog, logLevel = 'error', entry }: HostStart = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-host-process-'))
  const workspace = join(folder, 'workspace')
  mkdirSync(workspace)
  const privateKey = keyPair()
  const jwksFile = join(folder, 'jwks.json')
  writeFileSync(jwksFile, JSON.stringify({ keys: [await jwkOf(privateKey, 'k1')] }))
  const { backend } = await selectIsolation({ allowDirect: false, toolRoots: [] })
  const host = await startHostProcess({
    jwksFile,
    backend: backend.name,
    toolRoots: [],
    logLevel,
    log,
    entry: entry ?? (await bundledHost()),
  })
  const client = createAgentHostClient({ socketPath: host.socketPath }, TOKEN)
  onTestFinished(async () => {
    await client.close()
    await host.destroy()
    rmSync(folder, { recursive: true, force: true })
  })

  const configure = async (change: Partial<ConfigureRequestInput> = {}, session?: Uint8Array) => {
    const request = aConfiguration({ workingDirectory: workspace, ...change })
    const body = Buffer.from(JSON.stringify(request))
    const { runId, generation } = request
    const key = { kid: 'k1', privateKey }
    const ticket = await signTicket(key, { instanceId: host.instanceId, runId, body, now: new Date() })
    await client.configure({ runId, generation, ticket, body, signal: never, ...(session && { session }) })
  }
  return { host, client, workspace, configure }
}

export type HostOnSocket = Awaited<ReturnType<typeof startHostOnSocket>>

/**
 * Collects the events after a sequence number until `isLast` returns true. Releases every call that is not denied, like
 * an API without rules.
 */
export async function collect(
  { client }: Pick<HostOnSocket, 'client'>,
  after: number,
  isLast: (envelope: HostEnvelope) => boolean,
): Promise<HostEnvelope[]> {
  const stop = AbortSignal.timeout(150_000)
  const seen: HostEnvelope[] = []
  for await (const envelope of client.events(after, stop)) {
    seen.push(envelope)
    if (envelope.event.type === 'tool.call' && envelope.event.data.verdict !== 'deny') {
      const { callId } = envelope.event.data
      await client.decide({ ackedThrough: 0, decisions: [{ callId, outcome: 'release' }] }, stop)
    }
    if (isLast(envelope)) return seen
  }
  throw new Error(`the stream ended after ${seen.length} events`)
}

export const turnEnded = ({ event }: HostEnvelope): boolean => event.type === 'turn.ended'
