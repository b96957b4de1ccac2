import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { RunEnvelope } from '../../contracts/events.ts'
import type { Caller } from '../../runtime/api/runs/service.ts'
import { GitServer } from '../fakes/git-server.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { until } from '../helpers/until.ts'
import { RUNS_PUSH } from './git-rig.ts'
import { aRun, shell, startService } from './service-rig.ts'

export const REGISTRY = 'npm.agentweaver-test.com'
/** A git server that is not GitHub. */
export const GITLAB = 'gitlab.agentweaver-test.com'
export const OTHER_REGISTRY = 'other.agentweaver-test.com'

/** The tokens of alice and bob, and of the operator. Each is a canary. */
export const TOKENS = {
  alice: 'ghp_aliceCanaryOfTheTestAliceCanary00001',
  bob: 'ghp_bobCanaryOfTheTestBobCanaryOf0000002',
  operator: 'ghp_operatorCanaryOfTheTestCanary0000003',
} as const

const nameOf = (authorization = ''): string => {
  const [scheme = '', rest = ''] = authorization.split(' ')
  const plain = scheme === 'Basic' ? Buffer.from(rest, 'base64').toString() : rest
  const [user, password = user] = plain.split(':')
  const found = Object.entries(TOKENS).find(([, token]) => token === password)?.[0]
  return found
    ? `${scheme} ${scheme === 'Basic' ? `${user} ` : ''}${found}`
    : authorization === ''
      ? 'nobody'
      : 'other'
}

/** A registry that responds with the scheme and the owner of the token in the request. */
async function startRegistry(authority: ReturnType<typeof createTestAuthority>) {
  const asked: { host: string; by: string }[] = []
  const server = createServer(authority.serverFor(REGISTRY, OTHER_REGISTRY), (request, response) => {
    const by = nameOf(request.headers.authorization)
    asked.push({ host: request.headers.host ?? '', by })
    response.end(by)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { asked, port: (server.address() as AddressInfo).port, close: () => server.close() }
}

/** GitHub's API: accepts the tokens of the test. */
async function startGitHubApi(authority: ReturnType<typeof createTestAuthority>) {
  const asked: string[] = []
  const server = createServer(authority.serverFor('api.github.com'), (request, response) => {
    const by = nameOf(request.headers.authorization)
    asked.push(`${request.method} ${request.headers.host}${request.url} ${by}`)
    response.writeHead(by === 'other' ? 401 : 200).end('{}')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { asked, port: (server.address() as AddressInfo).port, close: () => server.close() }
}

type Options = {
  /** More keys of the entry for GitHub. */
  readonly github?: string
  /** More keys of the entry for the other git server. Without them, the list has no such entry. */
  readonly gitlab?: string
  /** The operator's list of credentials, which are one value. */
  readonly operatorsToken?: boolean
  readonly env?: Record<string, string>
  readonly ceiling?: string
  readonly hasGitHubApi?: boolean
  /** More names that lead to ports of this machine. */
  readonly names?: readonly (readonly [string, number])[]
}

/**
 * The servers of a company, and the settings of a service behind its proxy, which leads `github.com` to a git server and two
 * registries to another server of this machine. The git server accepts the token of alice. Everything ends with the test.
 */
export async function aCompany({
  github = '',
  gitlab,
  operatorsToken = false,
  names = [],
  ceiling = RUNS_PUSH,
  hasGitHubApi = true,
}: Omit<Options, 'env'> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-own-credentials-'))
  const authority = createTestAuthority()
  const repositories = join(folder, 'repositories')
  mkdirSync(repositories)
  const git = new GitServer(repositories, { authority, host: 'github.com', token: TOKENS.alice })
  await git.open('team/app')
  const gitlabServer = new GitServer(join(repositories, 'gitlab'), {
    ...{ authority, host: GITLAB, token: TOKENS.alice, more: [TOKENS.operator] },
  })
  if (gitlab !== undefined) {
    mkdirSync(join(repositories, 'gitlab'))
    await gitlabServer.open('team/app')
  }
  const registry = await startRegistry(authority)
  const api = await startGitHubApi(authority)
  const proxy = await startNameProxy(
    new Map([
      ['github.com', git.port],
      ...(gitlab === undefined ? [] : [[GITLAB, gitlabServer.port] as const]),
      [REGISTRY, registry.port],
      [OTHER_REGISTRY, registry.port],
      ...(hasGitHubApi ? [['api.github.com', api.port] as const] : []),
      ...names,
    ]),
  )
  const files = {
    'egress.yaml': `apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { preset: github, mode: full, repositories: [team/app], ${github} why: the repository of the test }
${
  gitlab === undefined
    ? ''
    : `    - { preset: git, host: ${GITLAB}, mode: full, repositories: [team/app], ${gitlab} why: a git server }
`
}    - { preset: npm, host: ${REGISTRY}, why: the registry of the test }
    - { preset: npm, host: ${OTHER_REGISTRY}, why: another registry }
  command: []
`,
    'credentials.yaml': `apiVersion: agentweaver.io/v1\nkind: Credentials\ncredentials: [{ id: team-git, file: token, variable: GIT_TOKEN }, { id: git, file: token, variable: LAB_TOKEN }]\n`,
    'ceiling.yml': ceiling,
    'roots.pem': authority.certificate,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  writeFileSync(join(folder, 'token'), TOKENS.operator, { mode: 0o600 })
  return {
    git,
    gitlab: gitlabServer,
    registry,
    api,
    repositories,
    settings: {
      AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
      AGENTWEAVER_EGRESS_ROOTS_FILE: join(folder, 'roots.pem'),
      ...(operatorsToken && { AGENTWEAVER_CREDENTIALS_FILE: join(folder, 'credentials.yaml') }),
      AGENTWEAVER_CEILING_FILE: join(folder, 'ceiling.yml'),
      AGENTWEAVER_EGRESS_UPSTREAM_PROXY: proxy.url,
    },
    async close() {
      git.close()
      if (gitlab !== undefined) gitlabServer.close()
      registry.close()
      api.close()
      await proxy.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A service of that company, with two owners. */
export async function aServiceOfTwo({ env = {}, ...options }: Options = {}) {
  const { git, gitlab, registry, api, settings, close } = await aCompany(options)
  const started = await startService({ ...settings, ...env })
  onTestFinished(async () => {
    await started.close()
    await close()
  })
  let places = 0
  const eventsOf = async (caller: Caller, id: string): Promise<RunEnvelope[]> => {
    const seen: RunEnvelope[] = []
    const signal = AbortSignal.timeout(150_000)
    const stream = await started.service.subscribe(caller, id, { after: 0, signal })
    for await (const envelope of stream ?? []) seen.push(envelope)
    return seen
  }
  const start = async (caller: Caller, ...commands: string[]) => {
    const path = started.aWorkspace(`place-${++places}`)
    const run = {
      ...aRun(
        path,
        commands.map((command) => shell(command)),
      ),
      policy: { network_enabled: true },
    }
    return { path, id: (await started.service.startRun(caller, run)).id }
  }
  /** Runs commands to their end, and returns their results. */
  const run = async (caller: Caller, ...commands: string[]) => {
    const { id } = await start(caller, ...commands)
    const events = await eventsOf(caller, id)
    const results = events.flatMap(({ event }) =>
      event.type === 'tool.result' ? [JSON.stringify(event.data)] : [],
    )
    return { id, events, results }
  }
  /** A run that asks again and again until `stop` is called. */
  const asking = async (caller: Caller, command: string) => {
    const { id, path } = await start(
      caller,
      `while [ ! -e stop ]; do (${command}) > new 2>&1; mv new status; sleep 0.05; done`,
    )
    const file = join(path, 'status')
    return {
      id,
      untilItGets: (wanted: string) =>
        until(
          `the command gets ${wanted}`,
          () => existsSync(file) && readFileSync(file, 'utf8').includes(wanted),
        ),
      async stop() {
        writeFileSync(join(path, 'stop'), '')
        return eventsOf(caller, id)
      },
    }
  }
  return { ...started, git, gitlab, registry, api, run, start, asking, eventsOf }
}

/** Files below a folder that contain a text. */
export const filesWith = (folder: string, text: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => readFileSync(file).includes(text))
