import { randomBytes } from 'node:crypto'
import { cp, mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const EXAMPLE = fileURLToPath(new URL('../../examples/parcel-rates', import.meta.url))

/** The demo's temporary folder, and the secrets that a sandbox must not reach. */
export interface DemoSetup extends AsyncDisposable {
  readonly root: string
  readonly workspace: string
  readonly stateDir: string
  /** Temporary folder of the service, below `root`, so that leftover files are found. */
  readonly temporary: string
  /** Content of a file next to the workspace. */
  readonly secret: string
  /** Variable in the service's environment. */
  readonly canary: { readonly name: string; readonly value: string }
  /** A server on the host that accepts every connection. */
  readonly hostUrl: string
  readonly hostConnections: () => number
}

/** Starts a reachable page on this host and fetches it once, which proves that a later failure is due to the sandbox. */
async function startHostServer() {
  let connections = 0
  const server = createServer((_request, response) => response.end('reached the host\n'))
  const { promise: listening, resolve, reject } = Promise.withResolvers<void>()
  server.once('error', reject).listen(0, 'localhost', resolve)
  await listening
  const url = `http://localhost:${(server.address() as AddressInfo).port}/`
  const page = await fetch(url)
  if (!(await page.text()).includes('reached'))
    throw new Error(`the demo's own server is not reachable: ${url}`)
  server.on('connection', () => {
    connections += 1
  })
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url, connections: () => connections, close }
}

/** Creates the folder, copies the example project into it, and writes the secrets. */
export async function createDemoSetup(): Promise<DemoSetup> {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'aw-demo-')))
  const workspace = join(root, 'parcel-rates')
  const temporary = join(root, 'tmp')
  const secret = `outside-${randomBytes(12).toString('hex')}`
  const host = await startHostServer()
  await Promise.all([
    cp(EXAMPLE, workspace, { recursive: true }),
    mkdir(temporary, { mode: 0o700 }),
    writeFile(join(root, 'secret.txt'), `${secret}\n`),
  ])
  return {
    root,
    workspace,
    temporary,
    stateDir: join(root, 'state'),
    secret,
    canary: { name: 'DEMO_HOST_SECRET', value: `host-${randomBytes(12).toString('hex')}` },
    hostUrl: host.url,
    hostConnections: host.connections,
    async [Symbol.asyncDispose]() {
      host.close()
      await rm(root, { recursive: true, force: true })
    },
  }
}
