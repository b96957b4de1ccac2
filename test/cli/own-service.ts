import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Client, createClient } from '../../runtime/client/client.ts'
import { spawnService } from '../api/service-process.ts'

/** The real service as a process, for several tests. */
export interface OwnService {
  readonly url: string
  readonly apiKey: string
  readonly client: Client
  readonly pid: number
  stop(): Promise<void>
}

/** Starts a service whose home and working directory are a folder of the test. Its state is in `state`, below it. */
export async function startOwnService(
  folder: string,
  env: Readonly<Record<string, string>> = {},
): Promise<OwnService> {
  const { child, ready } = spawnService(
    { HOME: folder, AGENTWEAVER_STATE_DIR: join(folder, 'state'), AGENTWEAVER_LOG_LEVEL: 'warn', ...env },
    folder,
  )
  const { url, apiKeyFile, pid } = await ready
  const apiKey = (await readFile(apiKeyFile, 'utf8')).trim()
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
  return { url, apiKey, client: createClient({ url, apiKey }), pid, stop }
}
