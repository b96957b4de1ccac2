import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { findBinaries, unprivilegedAccount } from './postgres-binaries.ts'

export interface PostgresServer {
  /** URL of the maintenance database, over a Unix socket in a private folder. */
  readonly url: string
  stop(): Promise<void>
}

/**
 * Holds the server and waits for the end of its standard input: however the test runner died, the server is
 * stopped at once and its folder removed. The second signal is for a server too young to have heard the first.
 */
const SUPERVISOR = `
  trap "" INT TERM HUP
  folder=$1; shift
  "$@" >"$folder/log" 2>&1 &
  server=$!
  cat >/dev/null
  kill -QUIT $server
  (sleep 1; kill -QUIT $server) 2>/dev/null &
  again=$!
  wait $server
  kill -KILL $again
  cd /
  rm -rf "$folder"`

const SETTINGS = {
  listen_addresses: '',
  max_connections: '200',
  fsync: 'off',
  synchronous_commit: 'on',
  full_page_writes: 'off',
  // The server may be killed: no segment may outlive its folder.
  dynamic_shared_memory_type: 'mmap',
} as const

export interface PostgresNetwork {
  readonly address: string
  readonly port: number
  /** A process in whose network namespace the server listens, if that is not the namespace of this process. */
  readonly pid?: number
  /** The line of `pg_hba.conf` for connections over the network. */
  readonly rule: string
  /** Certificate and key as PEM, for a server with TLS. */
  readonly tls?: { readonly cert: string; readonly key: string }
}

/** Starts a real PostgreSQL in a temporary folder. Only this account, root, and clients in `network` can reach it. */
export async function startPostgres(network?: PostgresNetwork): Promise<PostgresServer> {
  const folder = mkdtempSync(join(tmpdir(), 'aw-pg-'))
  try {
    const account = unprivilegedAccount()
    chmodSync(folder, account ? 0o711 : 0o700)
    if (account) chownSync(folder, account.uid, account.gid)
    const binaries = findBinaries(account, folder)
    chmodSync(folder, 0o700)
    return await run({
      folder,
      binaries,
      ...(network && { network }),
      spawnAs: { ...account, cwd: folder, env: { LC_ALL: 'C', PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } },
    })
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
}

interface Place {
  readonly folder: string
  readonly binaries: string
  readonly network?: PostgresNetwork
  readonly spawnAs: { cwd: string; env: Record<string, string>; uid?: number; gid?: number }
}

async function run({ folder, binaries, spawnAs, network }: Place): Promise<PostgresServer> {
  const data = join(folder, 'data')
  const init = spawnSync(
    join(binaries, 'initdb'),
    [
      '-D',
      data,
      '-U',
      'postgres',
      '-A',
      'trust',
      '-E',
      'UTF8',
      '--locale=C',
      '--no-sync',
      '--no-instructions',
    ],
    { ...spawnAs, encoding: 'utf8' },
  )
  if (init.status !== 0) throw new Error(`initdb failed: ${init.stderr || init.error?.message}`)

  const listens = network ? openNetwork(network, { folder, data, spawnAs }) : {}
  const options = Object.entries({ ...SETTINGS, ...listens, unix_socket_directories: folder })
  // Only root can enter another network namespace; the process switches to the account after that.
  const { uid, gid, ...place } = spawnAs
  const isElsewhere = network?.pid !== undefined
  const inside = isElsewhere
    ? ['nsenter', '-t', String(network.pid), '-n', '--', ...asAccount({ uid, gid })]
    : []
  const supervisor = spawn(
    '/bin/sh',
    [
      '-c',
      SUPERVISOR,
      'postgres-supervisor',
      folder,
      ...inside,
      join(binaries, 'postgres'),
      '-D',
      data,
      ...options.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    { ...(isElsewhere ? place : spawnAs), detached: true, stdio: ['pipe', 'ignore', 'ignore'] },
  )
  const exited = new Promise<void>((resolve) => supervisor.once('exit', () => resolve()))
  const stop = async () => {
    supervisor.stdin.end()
    await exited
  }
  const socket = `host=${encodeURIComponent(folder)}`
  const url = `postgres://postgres@localhost:${network?.port ?? 5432}/postgres?${socket}`
  try {
    await untilReady(url)
  } catch (error) {
    const log = await readFile(join(folder, 'log'), 'utf8').catch(() => '')
    await stop()
    throw new Error(`PostgreSQL did not start: ${log.slice(-2000)}`, { cause: error })
  }
  return { url, stop }
}

/**
 * Writes the files that a server in a network needs, and returns its settings. Connections over the socket stay
 * trusted.
 */
function openNetwork(
  { address, port, rule, tls }: PostgresNetwork,
  { folder, data, spawnAs }: Pick<Place, 'folder' | 'spawnAs'> & { readonly data: string },
): Record<string, string> {
  writeFileSync(join(data, 'pg_hba.conf'), `local all all trust\n${rule}\n`)
  const listens = { listen_addresses: address, port: String(port) }
  if (!tls) return listens
  const files = { cert: join(folder, 'server.crt'), key: join(folder, 'server.key') }
  for (const name of ['cert', 'key'] as const) {
    writeFileSync(files[name], tls[name], { mode: 0o600 })
    if (spawnAs.uid !== undefined && spawnAs.gid !== undefined)
      chownSync(files[name], spawnAs.uid, spawnAs.gid)
  }
  return { ...listens, ssl: 'on', ssl_cert_file: files.cert, ssl_key_file: files.key }
}

const asAccount = ({ uid, gid }: { uid: number | undefined; gid: number | undefined }) =>
  uid === undefined || gid === undefined
    ? []
    : ['setpriv', `--reuid=${uid}`, `--regid=${gid}`, '--clear-groups', '--']

async function untilReady(url: string): Promise<void> {
  const deadline = Date.now() + 120_000
  for (;;) {
    const client = new pg.Client({ connectionString: url })
    try {
      await client.connect()
      await client.end()
      return
    } catch (error) {
      if (Date.now() > deadline) throw error
      await delay(20)
    }
  }
}
