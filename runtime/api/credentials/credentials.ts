import { type FileHandle, open, readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { MAX_CREDENTIAL_LENGTH } from '../../../contracts/egress.ts'
import { keyTexts, parseClientCertificate, validityFault } from '../../kit/client-certificate.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'
import { type Log, silentLog } from '../../kit/log.ts'
import { type CredentialEntry, parseCredentialsFile } from './credentials-file.ts'
import { mintInstallationToken } from './github-app.ts'
import { type PlaceholderFor, placeholderOf, type Shape, shapeOf } from './placeholder.ts'

/** Shorter values cannot be distinguished from ordinary text, and could be guessed. */
const SHORTEST = 16
const LONGEST = 4096
/** On a laptop, only the owner may use the files. The files of a pod belong to root, and the pod's group reads them. */
const SHARED_BITS = { laptop: 0o077, pod: 0o037 } as const
export type FilePlace = keyof typeof SHARED_BITS

const VALUE = new RegExp(`^[\\x21-\\x7e]{${SHORTEST},${LONGEST}}$`)

/** GitHub's installation tokens. */
const INSTALLATION_TOKEN: Shape = { prefix: 'ghs_', length: 40 }

/** The operator's credentials. Only this service reads their values. */
export interface Credentials {
  readonly ids: readonly string[]
  readonly has: (id: string) => boolean
  /** Whether the proxy connects with it, instead of inserting it into requests. */
  readonly isCertificate: (id: string) => boolean
  /** Variable of commands in which the placeholder is. */
  readonly variableOf: (id: string) => string | undefined
  readonly placeholderOf: (key: Uint8Array, wanted: PlaceholderFor) => string
  /** Reads the value, or creates one. The message of an error does not contain it. */
  readonly read: (id: string) => Promise<string>
  /** Values, and the private keys of certificates, when the service started, for the redactor. */
  readonly secrets: readonly string[]
  /** Files of this machine that contain values. Commands must not see them. */
  readonly files: readonly string[]
}

export const NO_CREDENTIALS: Credentials = {
  ids: [],
  has: () => false,
  isCertificate: () => false,
  variableOf: () => undefined,
  placeholderOf: () => {
    throw new Error('there are no credentials')
  },
  read: () => Promise.reject(new Error('there are no credentials')),
  secrets: [],
  files: [],
}

export interface CredentialOptions {
  readonly place?: FilePlace
  /** The company's proxy, `http://HOST:PORT`, through which tokens of GitHub Apps are created. */
  readonly upstreamProxy?: string | undefined
  /** @default nothing is logged */
  readonly log?: Pick<Log, 'warn'>
}

/** Reads the operator's list, and every value once: a credential that cannot be read stops the service. */
export async function loadCredentials(
  file: string,
  { place = 'laptop', upstreamProxy, log = silentLog }: CredentialOptions = {},
): Promise<Credentials> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new SandboxError('invalid_config', `AGENTWEAVER_CREDENTIALS_FILE: ${messageOf(cause)}`, { cause })
  })
  const entries = parseCredentialsFile(text, file)
  const at = (path: string): PrivateFile => ({ path: resolve(dirname(file), path), place })
  const values = new Map<string, string>()
  const keys: string[] = []
  for (const { id, kind, file: valueFile, githubApp } of entries) {
    if (githubApp) await readPrivate(at(githubApp.keyFile), id)
    if (valueFile === undefined) continue
    if (kind) keys.push(...(await keyTextsOf(at(valueFile), { id, log })))
    else values.set(id, await readValue(at(valueFile), id))
  }
  const known = new Map(entries.map((entry) => [entry.id, entry]))
  return {
    ids: [...known.keys()],
    has: (id) => known.has(id),
    isCertificate: (id) => known.get(id)?.kind === 'client-certificate',
    variableOf: (id) => known.get(id)?.variable,
    placeholderOf: (key, wanted) => placeholderOf(key, wanted, shapeFor(values.get(wanted.credential))),
    read: (id) => readEntry(known.get(id), { at, upstreamProxy }),
    secrets: [...values.values(), ...keys],
    files: entries.map((entry) => at(entry.file ?? entry.githubApp?.keyFile ?? file).path),
  }
}

const shapeFor = (value: string | undefined): Shape =>
  value === undefined ? INSTALLATION_TOKEN : shapeOf(value)

interface PrivateFile {
  readonly path: string
  readonly place: FilePlace
}

interface Around {
  readonly at: (path: string) => PrivateFile
  readonly upstreamProxy: string | undefined
}

async function readEntry(entry: CredentialEntry | undefined, { at, upstreamProxy }: Around): Promise<string> {
  if (entry?.file !== undefined && entry.kind) {
    const { cert, key } = await readCertificate(at(entry.file), entry.id)
    return `${cert}${key}`
  }
  if (entry?.file !== undefined) return readValue(at(entry.file), entry.id)
  if (!entry?.githubApp) throw new SandboxError('credential_absent', 'the service has no such credential')
  const key = await readPrivate(at(entry.githubApp.keyFile), entry.id)
  return mintInstallationToken(entry.githubApp, { key, now: new Date(), upstreamProxy })
}

async function readValue(file: PrivateFile, id: string): Promise<string> {
  const value = (await readPrivate(file, id)).trim()
  if (VALUE.test(value)) return value
  throw refused(
    id,
    `${file.path} must contain one value of ${SHORTEST} to ${LONGEST} visible ASCII characters`,
  )
}

async function readCertificate(file: PrivateFile, id: string) {
  const parsed = parseClientCertificate(await readPrivate(file, id))
  if (parsed.ok) return parsed.certificate
  throw refused(id, `${file.path} cannot be used as a client certificate: ${parsed.reason}`)
}

/** An expired certificate does not stop the service: the proxy refuses the requests that need it. */
async function keyTextsOf(
  file: PrivateFile,
  { id, log }: { readonly id: string; readonly log: Pick<Log, 'warn'> },
): Promise<string[]> {
  const certificate = await readCertificate(file, id)
  const reason = validityFault(certificate, Date.now())
  if (reason !== undefined) log.warn('a client certificate cannot be used', { credential: id, reason })
  return keyTexts(certificate)
}

/** Reads a small file that only its owner can use. */
async function readPrivate({ path, place }: PrivateFile, id: string): Promise<string> {
  let file: FileHandle | undefined
  try {
    file = await open(path, 'r')
    const found = await file.stat()
    if (!found.isFile() || found.size > MAX_CREDENTIAL_LENGTH) throw new Error('it is not a small file')
    if ((found.mode & SHARED_BITS[place]) !== 0)
      throw new Error('others than its owner can use it (chmod 600)')
    return await file.readFile('utf8')
  } catch (cause) {
    throw refused(id, `${path} cannot be used: ${messageOf(cause)}`, cause)
  } finally {
    await file?.close()
  }
}

const refused = (id: string, why: string, cause?: unknown) =>
  new SandboxError(
    'invalid_config',
    `AGENTWEAVER_CREDENTIALS_FILE, credential ${id}: ${why}`,
    cause === undefined ? {} : { cause },
  )
