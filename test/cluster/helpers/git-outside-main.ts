import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startTeamIssuer } from '../../cli/team.ts'
import { GitServer } from '../../fakes/git-server.ts'
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
} as const

/** An OpenID Connect issuer, under a name that the resolver of the cluster knows. */
export const ISSUER_PLACE = { host: 'other.example.com', address: '198.51.100.20' } as const

/** The beginning of the paths of the model server. */
const MODELS = '/v1/'

/**
 * A git server with the repository of an npm project, the registry of its dependency under another name, and an
 * OpenAI-compatible model server that does the job, with one token. Its arguments: folder, address, port, host, repository.
 */
async function main([folder = '', address = '', port = '', host = '', repository = '']: readonly string[]) {
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const certificate = { cert: read(GIT_FILES.certificate), key: read(GIT_FILES.key) }
  const token = read(GIT_FILES.token)
  const server = new GitServer(join(folder, GIT_FILES.repositories), {
    authority: { serverFor: () => certificate },
    host,
    token,
  })
  const registry = read(GIT_FILES.registry)
  const npm = createNpmPackage(registry)
  const models = modelHandler({ respond: workOnProject(token) })
  server.intercept = (request, response) => {
    if (request.headers.host === new URL(registry).host) serveNpm(npm, request, response)
    else if (!request.url?.startsWith(MODELS)) return false
    else if (request.headers.authorization === `Bearer ${token}`) models.listener(request, response)
    else response.writeHead(401).end()
    return true
  }
  await startTeamIssuer({ ...ISSUER_PLACE, tls: certificate })
  await server.openAt({ address, port: Number(port) }, repository)
  server.commit(repository, { ...npm.project, '.gitignore': 'node_modules\n' })
}

if (import.meta.main) await main(process.argv.slice(2))
