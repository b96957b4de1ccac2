import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { parse, stringify } from 'yaml'
import { HarnessError } from '../harness-error.ts'

/** The address of an API server, and the credentials of one user. */
export interface Connection {
  readonly server: string
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  readonly token?: string
  /** The user to impersonate. The API server checks that the user of this connection has the permission. */
  readonly impersonate?: { readonly user: string; readonly groups: readonly string[] }
}

/** The user entry of a kubeconfig: certificate files, a token, or a token file. */
export type KubeconfigUser =
  | { readonly certificate: string; readonly key: string }
  | { readonly token: string }
  | { readonly tokenFile: string }

export interface KubeconfigParts {
  readonly server: string
  readonly authorityFile: string
  readonly user: KubeconfigUser
}

export function writeKubeconfig(path: string, { server, authorityFile, user }: KubeconfigParts): void {
  const credentials =
    'certificate' in user ? { 'client-certificate': user.certificate, 'client-key': user.key } : user
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'local', cluster: { server, 'certificate-authority': authorityFile } }],
    users: [{ name: 'user', user: credentials }],
    contexts: [{ name: 'local', context: { cluster: 'local', user: 'user' } }],
    'current-context': 'local',
  }
  writeFileSync(path, stringify(config), { mode: 0o600 })
}

interface Named {
  readonly name: string
  readonly [key: string]: unknown
}

type Entry = Record<string, string | undefined> & { exec?: ExecPlugin }

interface ExecPlugin {
  readonly command: string
  readonly args?: readonly string[]
  readonly env?: readonly { readonly name: string; readonly value: string }[]
}

/** Reads the current context of any kubeconfig: embedded data, files, tokens and exec plugins. */
export function readKubeconfig(path: string): Connection {
  const config = parse(readFileSync(path, 'utf8')) as Record<string, Named[]> & { 'current-context': string }
  const find = (list: string, name: string, part: string) =>
    config[list]?.find((entry) => entry.name === name)?.[part] as Entry | undefined
  const context = find('contexts', config['current-context'], 'context')
  const cluster = find('clusters', context?.['cluster'] ?? '', 'cluster')
  const user = find('users', context?.['user'] ?? '', 'user') ?? {}
  if (!cluster?.['server']) throw new HarnessError(`${path} has no current context with a server`)
  const given = {
    ca: material(cluster, 'certificate-authority'),
    cert: material(user, 'client-certificate'),
    key: material(user, 'client-key'),
    token: user['token'] ?? (user['tokenFile'] ? readFileSync(user['tokenFile'], 'utf8').trim() : undefined),
    ...(user.exec ? runPlugin(user.exec) : {}),
  }
  return { server: cluster['server'], ...(dropUndefined(given) as Omit<Connection, 'server'>) }
}

function material(entry: Entry, name: string): string | undefined {
  const data = entry[`${name}-data`]
  if (data) return Buffer.from(data, 'base64').toString('utf8')
  return entry[name] ? readFileSync(entry[name], 'utf8') : undefined
}

function runPlugin({ command, args = [], env = [] }: ExecPlugin): Record<string, string | undefined> {
  const extra = Object.fromEntries(env.map(({ name, value }) => [name, value]))
  const out = execFileSync(command, args, {
    env: { ...process.env, ...extra },
    encoding: 'utf8',
    timeout: 30_000,
  })
  const { status } = JSON.parse(out) as { status?: Record<string, string> }
  return { token: status?.['token'], cert: status?.['clientCertificateData'], key: status?.['clientKeyData'] }
}

function dropUndefined(record: Record<string, string | undefined>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(record).filter((pair): pair is [string, string] => pair[1] !== undefined),
  )
}
