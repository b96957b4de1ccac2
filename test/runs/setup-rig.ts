import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { StartRunInput } from '../../contracts/api.ts'
import { aRun, shell, startService } from './service-rig.ts'

export const SETUP_ONLY = 'setup.agentweaver-test.com'
export const WORK_ONLY = 'work.agentweaver-test.com'
export const BOTH = 'both.agentweaver-test.com'

/** A service whose list has a host for each phase, and a server that notes the requests for them. */
export async function aSetupPlace(ceiling = 'network_enabled: true\n') {
  const folder = mkdtempSync(join(tmpdir(), 'aw-setup-'))
  const served: string[] = []
  const server = createServer((request, response) => {
    served.push(`${request.headers.host?.split(':')[0]}${request.url}`)
    response.end('served')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const entry = (host: string, phases: string) =>
    `    - { host: ${host}, ports: [${port}], mode: read-only, http: allow, phases: ${phases}, addresses: [127.0.0.1], why: a host of the test }\n`
  const entries = [entry(SETUP_ONLY, '[setup]'), entry(WORK_ONLY, '[work]'), entry(BOTH, '[setup, work]')]
  const files = {
    'egress.yaml': `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent:\n${entries.join('')}  command:\n${entries.join('')}`,
    'ceiling.yml': ceiling,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const started = await startService({
    AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
    AGENTWEAVER_CEILING_FILE: join(folder, 'ceiling.yml'),
  })
  onTestFinished(async () => {
    await started.close()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  /** Prints the status of a request to a host. */
  const get = (host: string, path = '/') =>
    `curl -s -o /dev/null -w '%{http_code}\\n' http://${host}:${port}${path}`
  const aFolder = (name: string, settings?: string) => {
    const path = started.aWorkspace(name)
    mkdirSync(join(path, '.agentweaver'), { recursive: true })
    if (settings !== undefined) writeFileSync(join(path, '.agentweaver/settings.yml'), settings)
    return path
  }
  /** A request for a run whose agent runs these commands. */
  const asking = (path: string, commands: readonly string[], change: Partial<StartRunInput> = {}) =>
    aRun(
      path,
      commands.map((command) => shell(command)),
      { policy: { network_enabled: true }, ...change },
    )
  return { ...started, port, served, get, aFolder, asking }
}

/** A settings file with these setup commands. */
export const setupSettings = (...commands: string[]) => `setup_commands: ${JSON.stringify(commands)}\n`
