import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GitServer } from '../../fakes/git-server.ts'

/** Files of the folder that the server gets. */
export const GIT_FILES = {
  repositories: 'repositories',
  certificate: 'cert.pem',
  key: 'key.pem',
  token: 'token',
} as const

/** A git server in a network of its own. Its arguments: folder, address, port, host, repository. */
async function main([folder = '', address = '', port = '', host = '', repository = '']: readonly string[]) {
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  const certificate = { cert: read(GIT_FILES.certificate), key: read(GIT_FILES.key) }
  const server = new GitServer(join(folder, GIT_FILES.repositories), {
    authority: { serverFor: () => certificate },
    host,
    token: read(GIT_FILES.token),
  })
  await server.openAt({ address, port: Number(port) }, repository)
}

if (import.meta.main) await main(process.argv.slice(2))
