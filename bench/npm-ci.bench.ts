import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type Bench, figure, timeInTurn } from './harness.ts'
import { NAME, startEgress } from './subjects/egress-proxy.ts'

const run = promisify(execFile)
const ROOT = join(import.meta.dirname, '..')
const REGISTRY = new URL('subjects/npm-registry.mjs', import.meta.url)

/** `npm ci` of this repository from a registry of this machine: through the egress proxy, which reads the requests, and directly. */
export const bench: Bench = {
  name: 'npm-ci',
  async run() {
    const folder = mkdtempSync(join(tmpdir(), 'aw-npm-ci-'))
    try {
      const list = join(folder, 'packages.json')
      writeFileSync(list, JSON.stringify(await packages(join(folder, 'warm'))))
      await using egress = await startEgress({ source: { program: REGISTRY, args: [list] } })
      await using relay = await startRelay(egress.sockets.at(-1) ?? '')
      const samples = await timeInTurn({
        ...{ rounds: 3, warmUp: 0 },
        baseline: () =>
          install(folder, {
            npm_config_registry: `https://localhost:${egress.port}/`,
            NODE_EXTRA_CA_CERTS: egress.publicRootFile,
          }),
        value: () =>
          install(folder, {
            npm_config_registry: `https://${NAME}:${egress.port}/`,
            npm_config_https_proxy: `http://127.0.0.1:${relay.port}`,
            NODE_EXTRA_CA_CERTS: egress.rootFile,
          }),
      })
      return [
        figure({
          name: 'npm ci of this repository through the proxy',
          ...{ unit: 'ms', bar: 1.3, samples },
        }),
      ]
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const FLAGS = [
  'ci',
  '--ignore-scripts',
  '--no-audit',
  '--no-fund',
  '--no-progress',
  '--loglevel=error',
] as const

/** The project without its programs. */
function project(folder: string): string {
  const path = mkdtempSync(join(folder, 'project-'))
  for (const file of ['package.json', 'package-lock.json']) cpSync(join(ROOT, file), join(path, file))
  return path
}

/** Installs into an empty folder with an empty cache. */
async function install(folder: string, env: Readonly<Record<string, string>>): Promise<void> {
  const path = project(folder)
  const cache = join(path, 'cache')
  await run('npm', [...FLAGS, '--cache', cache], { cwd: path, env: { ...clean(), ...env } })
  if (!existsSync(join(path, 'node_modules', 'zod'))) throw new Error('npm ci installed nothing')
  rmSync(path, { recursive: true, force: true })
}

/** The environment without a proxy. */
function clean(): Record<string, string> {
  const isMeant = ([name]: readonly [string, unknown]) => !/^(?:npm_|node_|.*_proxy$)/i.test(name)
  return Object.fromEntries(Object.entries(process.env).filter(isMeant)) as Record<string, string>
}

interface Version {
  readonly version: string
  readonly integrity: string
  readonly file: string
}

/** Downloads the packages of the lock file from the machine's registry, and returns their files by name. */
async function packages(cache: string): Promise<Record<string, Version[]>> {
  mkdirSync(cache)
  await run('npm', [...FLAGS, '--cache', cache], { cwd: project(cache) })
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { name?: string; version?: string; integrity?: string }>
  }
  const found: Record<string, Version[]> = {}
  for (const [path, { name = path.split('node_modules/').at(-1), version, integrity }] of Object.entries(
    lock.packages,
  )) {
    if (!name || version === undefined || integrity === undefined) continue
    const [algorithm = '', digest = ''] = integrity.split('-')
    const hex = Buffer.from(digest, 'base64').toString('hex')
    const content = [hex.slice(0, 2), hex.slice(2, 4), hex.slice(4)]
    const file = join(cache, '_cacache', 'content-v2', algorithm, ...content)
    // Programs for other systems are in the lock file too, and npm does not load them.
    if (existsSync(file)) found[name] = [...(found[name] ?? []), { version, integrity, file }]
  }
  return found
}

/** Leads a port to a socket of the proxy, as the relay of a sandbox does. */
async function startRelay(path: string) {
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const proxy = connect({ path, allowHalfOpen: true })
    client.pipe(proxy).pipe(client)
    for (const end of [client, proxy]) end.on('error', () => end.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.close()
    },
  }
}
