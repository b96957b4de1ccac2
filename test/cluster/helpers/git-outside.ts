import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startDaemon } from '../../../devcluster/host/daemon.ts'
import { runCommand } from '../../../devcluster/host/run-command.ts'
import { logPath } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { openOutside } from '../../../devcluster/service/outside-network.ts'
import { createTestAuthority } from '../../fakes/test-authority.ts'
import { COMPANY_PLACE, GIT_FILES, ISSUER_PLACE } from './git-outside-main.ts'

const MAIN = join(import.meta.dirname, 'git-outside-main.ts')
const READY_MS = 20_000

export const GIT_PLACE = { host: 'git.agentweaver-test.com', address: '198.51.100.60', port: 443 } as const
export const GIT_REPOSITORY = 'team/app'
/** An npm registry at the same address. */
export const NPM_HOST = 'npm.agentweaver-test.com'
/** The same git server for the GitHub App. */
export const APP_HOST = 'app.agentweaver-test.com'

/** The certificate of a git server that is not running yet, and a function that starts it outside the cluster. */
export function prepareGit(token: string, appToken: string) {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const folder = mkdtempSync(join(tmpdir(), 'aw-git-outside-'))
  const authority = createTestAuthority()
  const { cert, key } = authority.serverFor(
    GIT_PLACE.host,
    NPM_HOST,
    APP_HOST,
    'github.com',
    ISSUER_PLACE.host,
    COMPANY_PLACE.app,
    COMPANY_PLACE.registry,
    COMPANY_PLACE.github,
  )
  mkdirSync(join(folder, GIT_FILES.repositories))
  const files = {
    [GIT_FILES.certificate]: cert,
    [GIT_FILES.key]: key,
    [GIT_FILES.token]: token,
    [GIT_FILES.registry]: `https://${NPM_HOST}`,
    [GIT_FILES.appKey]: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    [GIT_FILES.appToken]: appToken,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 })
  return {
    root: authority.certificate,
    /** The private key of the GitHub App. */
    appKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    /** The bare repository. */
    repository: join(folder, GIT_FILES.repositories, `${GIT_REPOSITORY}.git`),
    /** All refs of the repository. */
    refs: () =>
      execFileSync('git', ['for-each-ref', '--format=%(refname)'], {
        cwd: join(folder, GIT_FILES.repositories, `${GIT_REPOSITORY}.git`),
        encoding: 'utf8',
      })
        .split('\n')
        .filter(Boolean),
    start: (clusterFolder: string) => start(clusterFolder, folder),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

const ADDRESSES = [GIT_PLACE.address, ISSUER_PLACE.address, COMPANY_PLACE.address]

export interface GitOutside {
  /** A process in the network of the servers. */
  readonly pid: number
  stop(): Promise<void>
}

async function start(clusterFolder: string, folder: string): Promise<GitOutside> {
  const { address, port } = GIT_PLACE
  const network = await openOutside(clusterFolder, {
    link: 'git',
    hostByte: 6,
    addresses: ADDRESSES,
    ranges: ADDRESSES.map((one) => `${one}/32`),
  })
  const inside = ['nsenter', '-t', String(network.pid), '-n', '--']
  const server = startDaemon({
    name: 'git server',
    argv: [...inside, process.execPath, MAIN, folder, address, String(port), GIT_PLACE.host, GIT_REPOSITORY],
    logPath: logPath(clusterFolder, 'git-server'),
  })
  const isOpen = `require('node:net').connect(${port}, '${address}').on('connect', () => process.exit(0)).on('error', () => process.exit(1))`
  await waitUntil(
    { what: 'the git server', timeoutMs: READY_MS, needs: [server], everyMs: 200 },
    async () => {
      await runCommand([...inside, process.execPath, '-e', isOpen])
      return true
    },
  )
  return {
    pid: network.pid,
    async stop() {
      await server.stop(0)
      await network.stop()
    },
  }
}
