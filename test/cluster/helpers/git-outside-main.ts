import { createPublicKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { join } from 'node:path'
import { startTeamIssuer } from '../../cli/team.ts'
import { startCompanyProxy } from '../../fakes/company-proxy.ts'
import { GitServer } from '../../fakes/git-server.ts'
import { answerForApp } from '../../fakes/github-app.ts'
import { modelHandler } from '../../fakes/model-server.ts'
import { createNpmPackage, serveNpm } from '../../fakes/npm-package.ts'
import { workOnProject } from '../../fakes/npm-project-work.ts'

/** Files of the folder that the server gets. */
export const GIT_FILES = {
  repositories: 'repositories',
  certificate: 'cert.pem',
  key: 'key.pem',
  token: 'token',
  /** The URL of the npm registry. */
  registry: 'registry',
  /** The public key of the GitHub App, and the token that it gets. */
  appKey: 'app.pem',
  appToken: 'app-token',
} as const

/** An OpenID Connect issuer, under a name that the resolver of the cluster knows. */
export const ISSUER_PLACE = { host: 'other.example.com', address: '198.51.100.20' } as const

/** Only the proxy of the company resolves these names, and to the address of the git server. */
export const COMPANY_PLACE = {
  address: '192.168.77.5',
  port: 3128,
  app: 'github-app.agentweaver-test.com',
  registry: 'registry.npmjs.org',
  github: 'api.github.com',
} as const
const COMPANY_NAMES: readonly string[] = [COMPANY_PLACE.app, COMPANY_PLACE.registry, COMPANY_PLACE.github]

/** GitHub does not know tokens with this text. */
export const UNKNOWN = 'Unknown'

/** The beginning of the paths of the model server. */
const MODELS = '/v1/'

/**
 * A git server with the repository of an npm project, the registry of its dependency under another name, and an
 * OpenAI-compatible model server that does the job, with one token. The proxy of a company leads to two more names of the
 * server: GitHub's API for the tokens of an app, and a registry. Its arguments: folder, address, port, host, repository.
 */
async function main([folder = '', address = '', port = '', host = '', repository = '']: readonly string[]) {
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const certificate = { cert: read(GIT_FILES.certificate), key: read(GIT_FILES.key) }
  const [token, appToken] = [read(GIT_FILES.token), read(GIT_FILES.appToken)]
  const server = new GitServer(join(folder, GIT_FILES.repositories), {
    authority: { serverFor: () => certificate },
    host,
    token,
    more: [appToken],
  })
  const publicKey = createPublicKey(read(GIT_FILES.appKey))
  const registry = read(GIT_FILES.registry)
  const npm = createNpmPackage(registry)
  const models = modelHandler({ respond: workOnProject(token) })
  const sites = new Map<string, (request: IncomingMessage, response: ServerResponse) => unknown>([
    [new URL(registry).host, (request, response) => serveNpm(npm, request, response)],
    [
      COMPANY_PLACE.github,
      ({ headers }, response) =>
        response.writeHead(headers.authorization?.includes(UNKNOWN) ? 401 : 200).end('{}'),
    ],
    [COMPANY_PLACE.registry, (_request, response) => response.end('{"name":"is-number"}')],
    [
      COMPANY_PLACE.app,
      async (request, response) => {
        const { isSigned } = await answerForApp(request, response, { publicKey, token: appToken })
        if (!isSigned) throw new Error('another key signed the request of the app')
      },
    ],
  ])
  server.intercept = (request, response) => {
    const site = sites.get(request.headers.host ?? '')
    if (site !== undefined) site(request, response)
    else if (!request.url?.startsWith(MODELS)) return false
    else if (request.headers.authorization === `Bearer ${token}`) models.listener(request, response)
    else response.writeHead(401).end()
    return true
  }
  await startCompanyProxy({
    at: { address: COMPANY_PLACE.address, port: COMPANY_PLACE.port },
    resolve: (asked) => (COMPANY_NAMES.includes(asked) ? address : undefined),
    onAsked: (target) => process.stdout.write(`asked the proxy of the company for ${target}\n`),
  })
  await startTeamIssuer({ ...ISSUER_PLACE, tls: certificate })
  await server.openAt({ address, port: Number(port) }, repository)
  server.commit(repository, { ...npm.project, '.gitignore': 'node_modules\n' })
}

if (import.meta.main) await main(process.argv.slice(2))
