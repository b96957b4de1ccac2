import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import type { SavedTokens } from '../../cli/service/logins.ts'
import { spawnService } from '../api/service-process.ts'
import { CLI_CLIENT, OIDC_AUDIENCE, startOidcServer } from '../fakes/oidc-server.ts'
import { scriptedBrowser } from '../fakes/scripted-browser.ts'
import { until } from '../helpers/until.ts'
import { aFolder, runCli, startCli } from './run-cli.ts'

const people = {
  ada: { tid: 't1', oid: 'ada', roles: ['sandbox-users'] },
  bob: { tid: 't1', oid: 'bob', roles: ['sandbox-users'] },
  ann: { tid: 't1', oid: 'ann', roles: ['sandbox-approvers'] },
  guest: { tid: 't1', oid: 'guest', roles: [] },
}

const settings = (issuer: string) => ({
  AGENTWEAVER_OIDC_ISSUER: issuer,
  AGENTWEAVER_OIDC_AUDIENCE: OIDC_AUDIENCE,
  AGENTWEAVER_OIDC_OWNER_CLAIMS: 'tid,oid',
  AGENTWEAVER_OIDC_ROLES: 'sandbox-users=user,sandbox-approvers=approver',
  AGENTWEAVER_OIDC_CLIENT_ID: CLI_CLIENT,
  AGENTWEAVER_OIDC_SCOPES: 'openid offline_access api',
  AGENTWEAVER_OIDC_RESOURCE: OIDC_AUDIENCE,
})

/** The real service as a process, with sign-in at a real issuer, for a whole test file. */
async function startTeam() {
  const folder = await mkdtemp(join(tmpdir(), 'aw-sign-in-'))
  const server = await startOidcServer({ people })
  const { child, ready, stderr } = spawnService({
    HOME: folder,
    AGENTWEAVER_STATE_DIR: join(folder, 'state'),
    AGENTWEAVER_LOG_LEVEL: 'debug',
    ...settings(server.issuer),
  })
  const { url } = await ready
  const stop = async () => {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await exited
    await server.close()
    await rm(folder, { recursive: true })
  }
  return { server, service: { url, log: stderr }, stop }
}

export function useTeam() {
  let started: Awaited<ReturnType<typeof startTeam>> | undefined
  beforeAll(async () => {
    started = await startTeam()
  })
  afterAll(() => started?.stop())
  return () => {
    if (!started) throw new Error('the service is not started')
    return started
  }
}

/** A person at a machine of the own, with the command line and a browser. */
export async function aPerson(name: string, url: string) {
  const home = await aFolder('aw-sign-in-home-')
  const env = { HOME: home, AGENTWEAVER_URL: url }
  const file = join(home, '.config/agentweaver/logins', encodeURIComponent(url))
  const browser = scriptedBrowser(name)
  const said: string[] = []
  const cli = async (...argv: string[]) => {
    const result = await runCli(argv, { env, cwd: home })
    said.push(result.stdout, result.stderr)
    return result
  }
  /** Starts `login`, lets the browser do its part once its text is printed, and returns the end of the command. */
  const login = async (part: (text: string) => Promise<unknown>, ...more: string[]) => {
    const child = startCli(['login', '--url', url, ...more], { env, cwd: home })
    child.stdin.end()
    let [stdout, stderr] = ['', '']
    child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
    const exited = once(child, 'close')
    const isPrinted = () => /^http\S+$/m.test(stderr) || /the code \S+/.test(stderr)
    await until('the sign-in page is printed', () => isPrinted() || child.exitCode !== null)
    const then = isPrinted() ? await part(stderr) : undefined
    if (then === 'SIGINT') child.kill(then)
    const [status] = await exited
    said.push(stdout, stderr)
    return { status: status as number, stdout, stderr }
  }
  const saved = async (): Promise<SavedTokens> => JSON.parse(await readFile(file, 'utf8'))
  return {
    home,
    file,
    browser,
    cli,
    login,
    saved,
    said: () => said.join('\n'),
    /** Signs in with the browser. */
    signIn: (...more: string[]) => login((text) => browser.open(pageOf(text)), ...more),
    change: async (change: Partial<SavedTokens>) =>
      writeFile(file, JSON.stringify({ ...(await saved()), ...change }), { mode: 0o600 }),
  }
}

/** The address that `login` printed. */
export const pageOf = (text: string) => /^http\S+$/m.exec(text)?.[0] ?? ''
