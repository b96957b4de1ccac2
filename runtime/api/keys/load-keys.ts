import { createPrivateKey } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { API_KEY_FILE } from '../../../contracts/api-env.ts'
import { names, type Slice } from '../../../contracts/names.ts'
import type { WorkloadIdentity } from '../../azure/workload-identity.ts'
import { errnoOf, messageOf, SandboxError } from '../../kit/errors.ts'
import { type DeploymentKeys, deploymentKeysOf, KEY_FILES, loadDeploymentKeys } from './deployment-keys.ts'

/** Where the deployment's keys come from: created by this service, or provided to all of its processes. */
export type KeysPlace =
  | { readonly kind: 'own' | 'folder'; readonly directory: string }
  | { readonly kind: 'vault'; readonly url: string }

export type KeysContext = {
  readonly stateDir: string
  readonly slice: Slice
  readonly identity: WorkloadIdentity | undefined
}

export type LoadedKeys = {
  readonly keys: DeploymentKeys
  /** The first operator's API key. Undefined if the service creates one, or the store must already have one. */
  readonly apiKey?: string
  /** Reads provided keys again. Returns true if tickets are signed with a new key from now on. */
  readonly reread?: () => Promise<boolean>
}

/** Time limit for all attempts to read one secret. */
const READ_BUDGET_MS = 20_000
const BASE64 = /^[A-Za-z0-9+/]+={0,2}\s*$/

/** Reads the keys. If provided keys cannot be read, the service does not start. */
export async function loadKeys(place: KeysPlace, context: KeysContext): Promise<LoadedKeys> {
  if (place.kind === 'own') return { keys: await loadDeploymentKeys(place.directory) }
  const read = place.kind === 'vault' ? vaultReader(place.url, context) : folderReader(place.directory)
  const readRoots = async () => ({
    root: decoded(await read.required('deploymentKey'), 'the deployment key'),
    privateKey: privateKeyOf(decoded(await read.required('ticketKey'), 'the ticket key')),
  })
  const keys = await deploymentKeysOf(await readRoots(), join(context.stateDir, 'keys'))
  const apiKey = await read.optional('apiKey')
  return {
    keys,
    reread: async () => keys.rotate(await readRoots()),
    ...(apiKey !== undefined && { apiKey: apiKey.trim() }),
  }
}

type Wanted = 'deploymentKey' | 'ticketKey' | 'apiKey'
type Reader = {
  required(wanted: Wanted): Promise<string>
  optional(wanted: Wanted): Promise<string | undefined>
}

function folderReader(directory: string): Reader {
  const files = { ...KEY_FILES, apiKey: API_KEY_FILE }
  const at = (wanted: Wanted) => readFile(join(directory, files[wanted]), 'utf8')
  return {
    required: (wanted) =>
      at(wanted).catch((cause: unknown) => {
        throw new SandboxError('invalid_config', `AGENTWEAVER_KEYS_DIR: ${messageOf(cause)}`, { cause })
      }),
    optional: (wanted) =>
      at(wanted).catch((error: unknown) => {
        if (errnoOf(error) === 'ENOENT') return undefined
        throw error
      }),
  }
}

function vaultReader(vaultUrl: string, { identity, slice }: KeysContext): Reader {
  if (!identity) throw new SandboxError('invalid_config', 'AGENTWEAVER_KEY_VAULT needs an Azure identity')
  const secrets = names(slice).keySecrets
  const required = async (wanted: Wanted): Promise<string> => {
    const { readSecret } = await import('../../azure/azure-clients.ts')
    const { retryWithin } = await import('../../azure/retry-within.ts')
    const place = { identity, vaultUrl }
    const { value } = await retryWithin(READ_BUDGET_MS, (signal) =>
      readSecret(place, { name: secrets[wanted] }, signal),
    )
    return value
  }
  return {
    required: (wanted) =>
      required(wanted).catch((cause: unknown) => {
        const message = `the secret ${secrets[wanted]} of the key vault cannot be read: ${messageOf(cause)}`
        throw new SandboxError('invalid_config', message, { cause })
      }),
    optional: (wanted) =>
      required(wanted).catch((error: unknown) => {
        if (error instanceof SandboxError && error.code === 'credential_absent') return undefined
        throw error
      }),
  }
}

function decoded(text: string, what: string): Buffer {
  if (!BASE64.test(text)) throw new SandboxError('invalid_config', `${what} must be base64`)
  return Buffer.from(text, 'base64')
}

/** Expects PKCS #8 in DER. */
function privateKeyOf(der: Buffer) {
  const refuse = (cause?: unknown) =>
    new SandboxError('invalid_config', 'the ticket key must be an Ed25519 key as PKCS #8', { cause })
  const key = (() => {
    try {
      return createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    } catch (error) {
      throw refuse(error)
    }
  })()
  if (key.asymmetricKeyType !== 'ed25519') throw refuse()
  return key
}
