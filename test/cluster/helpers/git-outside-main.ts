import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GitServer } from '../../fakes/git-server.ts'
import { type ModelReply, type ModelRequest, modelHandler } from '../../fakes/model-server.ts'

/** Files of the folder that the server gets. */
export const GIT_FILES = {
  repositories: 'repositories',
  certificate: 'cert.pem',
  key: 'key.pem',
  token: 'token',
} as const

/** The beginning of the paths of the model server. */
const MODELS = '/v1/'

/** A model that works on the repository of the run: a commit, a push, and a report. */
function respond({ messages }: ModelRequest): ModelReply {
  const results = messages.filter(({ role }) => role === 'tool').length
  const push = 'git push -q origin "HEAD:refs/heads/${AGENTWEAVER_BRANCH_PREFIX}work"'
  const command = `echo more >> README && git commit -qam work && ${push}`
  if (results === 0) return { toolCalls: [{ name: 'run_command', arguments: { command } }] }
  if (results === 1) return { toolCalls: [{ name: 'report_outcome', arguments: { outcome: 'succeeded' } }] }
  return { text: 'The change is pushed.' }
}

/** A git server and an OpenAI-compatible model server, with one token, in a network of their own. Its arguments: folder, address, port, host, repository. */
async function main([folder = '', address = '', port = '', host = '', repository = '']: readonly string[]) {
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const certificate = { cert: read(GIT_FILES.certificate), key: read(GIT_FILES.key) }
  const server = new GitServer(join(folder, GIT_FILES.repositories), {
    authority: { serverFor: () => certificate },
    host,
    token: read(GIT_FILES.token),
  })
  const models = modelHandler({ respond })
  server.intercept = (request, response) => {
    if (!request.url?.startsWith(MODELS)) return false
    const isAllowed = request.headers.authorization === `Bearer ${read(GIT_FILES.token)}`
    if (isAllowed) models.listener(request, response)
    else response.writeHead(401).end()
    return true
  }
  await server.openAt({ address, port: Number(port) }, repository)
}

if (import.meta.main) await main(process.argv.slice(2))
