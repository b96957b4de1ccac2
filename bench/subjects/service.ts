import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { spawnService } from '../../cli/service/spawn-service.ts'
import { AGENT_HOST_ROUTES } from '../../contracts/routes.ts'
import { createClient } from '../../runtime/client/client.ts'

const STANDBY_TIMEOUT_MS = 60_000
/** A sandbox loads the modules of a run after it has reported standby. */
const SETTLE_MS = 700

export type Service = Awaited<ReturnType<typeof startService>>

type Given = {
  readonly warm: number
  /** Settings in addition to the settings of every benchmark. */
  readonly settings?: Readonly<Record<string, string>>
  /** Fills the store before the service starts. */
  readonly seed?: (storeFile: string) => Promise<void>
}

/** The real service in a separate process with the local provider and temporary folders. */
export async function startService({ warm, settings = {}, seed }: Given) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'bench-')))
  const [stateDir, workspace, temporary] = ['state', 'workspace', 'tmp'].map((name) =>
    join(folder, name),
  ) as [string, string, string]
  for (const each of [workspace, temporary]) mkdirSync(each)
  const storeFile = join(stateDir, 'store.db')
  if (seed) {
    mkdirSync(stateDir, { mode: 0o700 })
    await seed(storeFile)
  }
  const service = await spawnService({
    env: { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: folder, TMPDIR: temporary },
    settings: {
      AGENTWEAVER_STATE_DIR: stateDir,
      AGENTWEAVER_WORKSPACE_ROOTS: workspace,
      AGENTWEAVER_LOCAL_WARM: String(warm),
      ...settings,
    },
    cwd: folder,
  })
  const sockets = () =>
    readdirSync(temporary)
      .filter((name) => name.startsWith('agentweaver-sandbox-'))
      .map((name) => join(temporary, name, 'host.sock'))

  return {
    client: createClient(service),
    pid: service.pid,
    url: service.url,
    apiKey: service.apiKey,
    storeFile,
    stateDir,
    workspace,
    sockets,
    /** Waits until `count` sandboxes are in standby and nothing of their start is left to do. */
    async untilWarm(count = warm): Promise<void> {
      const signal = AbortSignal.timeout(STANDBY_TIMEOUT_MS)
      while (
        (await Promise.all(sockets().map(stateOf))).filter((state) => state === 'standby').length < count
      )
        await delay(50, undefined, { signal })
      await delay(SETTLE_MS)
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await service.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** What an AgentHost says of itself; undefined while it does not answer. */
async function stateOf(socketPath: string): Promise<unknown> {
  const answer = await get(socketPath, AGENT_HOST_ROUTES.healthz).catch(() => undefined)
  return answer === undefined ? undefined : (JSON.parse(answer) as { state: unknown }).state
}

/** Sends one request over a new connection to a Unix socket and returns the body of the response. */
export function get(socketPath: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, path, agent: false }, (response) => {
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => {
        body += chunk
      })
      response.on('end', () => resolve(body))
    })
    sent.on('error', reject)
    sent.end()
  })
}
