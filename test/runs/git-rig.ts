import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { GitServer } from '../fakes/git-server.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { startService } from './service-rig.ts'

export const HOST = 'git.agentweaver-test.com'
/** The canary: nothing that a sandbox can read may contain it, in any encoding. */
export const TOKEN = 'ghp_canaryOfTheTestCanaryOfTheTest000001'

/** A ceiling with which the commands of runs may push. */
export const RUNS_PUSH = 'network_enabled: true\nresults: { push: allow }\n'

interface GitPlaceOptions {
  readonly ceiling?: string
  /** Another name of the server, which the egress list has as an npm registry. */
  readonly registry?: string | undefined
}

/**
 * A git server with the repository `team/app`, and the variables of a service whose runs may use it, with a token that only
 * the service can read. The server also has `team/other`, which the egress list does not have.
 */
export async function gitPlace({ ceiling = 'network_enabled: true\n', registry }: GitPlaceOptions = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-git-credential-'))
  const authority = createTestAuthority()
  const repositories = join(folder, 'repositories')
  mkdirSync(repositories)
  const names = [HOST, ...(registry ? [registry] : [])]
  const certified = { serverFor: () => authority.serverFor(...names) }
  const server = new GitServer(repositories, { authority: certified, host: HOST, token: TOKEN })
  await server.open('team/app', 'team/other')
  const at = `ports: [${server.port}], addresses: [127.0.0.1]`
  const git = `{ preset: git, host: ${HOST}, ${at}, mode: full, repositories: [team/app], credential: git, why: the repository of the test }`
  const npm = registry ? [`{ preset: npm, host: ${registry}, ${at}, why: the registry of the test }`] : []
  const files = {
    'egress.yaml': `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent: [${[git, ...npm].join(', ')}]\n  command: []\n`,
    'credentials.yaml': `apiVersion: agentweaver.io/v1\nkind: Credentials\ncredentials: [{ id: git, file: token, variable: GIT_TOKEN }]\n`,
    'ceiling.yml': ceiling,
    'roots.pem': authority.certificate,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  writeFileSync(join(folder, 'token'), `${TOKEN}\n`, { mode: 0o600 })
  onTestFinished(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const env = {
    AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
    AGENTWEAVER_EGRESS_ROOTS_FILE: join(folder, 'roots.pem'),
    AGENTWEAVER_CREDENTIALS_FILE: join(folder, 'credentials.yaml'),
    AGENTWEAVER_CEILING_FILE: join(folder, 'ceiling.yml'),
    AGENTWEAVER_LOCAL_WARM: '0',
  }
  return { server, repositories, env }
}

/** A service whose runs may use the repository `team/app`. */
export async function gitService({
  env = {},
  ...options
}: GitPlaceOptions & { readonly env?: Record<string, string> } = {}) {
  const { server, repositories, env: ofPlace } = await gitPlace(options)
  const started = await startService({ ...ofPlace, ...env })
  onTestFinished(started.close)
  return { ...started, server, repositories }
}
