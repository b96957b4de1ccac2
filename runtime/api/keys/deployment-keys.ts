import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { chmod, link, mkdir, readFile, rename, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { exportJWK } from 'jose'
import { EXECUTOR_KEYS } from '../../../contracts/names.ts'
import { deriveKey, KEY_BYTES, keyFingerprint } from '../../kit/derive-key.ts'
import { errnoOf, SandboxError } from '../../kit/errors.ts'

/** Purposes of keys. Each purpose has its own derived key. */
export type KeyUse = 'turn' | 'name' | 'audit' | 'digest' | 'egress-ca' | 'placeholder' | 'user-credential'

export type DeploymentKeys = {
  /** Fingerprint of the deployment key. Stored with everything that the key protects. */
  readonly keyId: string
  readonly derive: (use: KeyUse) => Uint8Array
  /** Changes in a rotation, so read it again for every ticket. */
  readonly ticketKey: { readonly kid: string; readonly privateKey: KeyObject }
  /** File with the public keys for AgentHosts on this machine. */
  readonly jwksFile: string
}

/** Files of provided keys: base64 of 32 bytes, and base64 of an Ed25519 key in PKCS #8. */
export const KEY_FILES = { deploymentKey: 'deployment-key', ticketKey: 'ticket-key' } as const

/** Reads the keys of a laptop's service from a folder of mode 0700. Creates them on the first start. */
export async function loadDeploymentKeys(directory: string): Promise<DeploymentKeys> {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  await chmod(directory, 0o700)
  const root = await readOrMake(join(directory, 'deployment.key'), () => randomBytes(KEY_BYTES))
  const pem = await readOrMake(join(directory, 'ticket.pem'), () =>
    Buffer.from(generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' })),
  )
  return deploymentKeysOf({ root, privateKey: createPrivateKey(pem) }, directory)
}

export type RootKeys = { readonly root: Uint8Array; readonly privateKey: KeyObject }

export type RotatingKeys = DeploymentKeys & {
  /**
   * Signs tickets with this key from now on. AgentHosts on this machine also accept tickets of the previous key. Returns
   * false if the key is already in use. Throws if the root key differs, because all stored data depends on it.
   */
  rotate(next: RootKeys): Promise<boolean>
}

/** Derives the keys and publishes the public half of the ticket key in a file of the folder. */
export async function deploymentKeysOf(
  { root, privateKey }: RootKeys,
  directory: string,
): Promise<RotatingKeys> {
  if (root.length !== KEY_BYTES)
    throw new SandboxError('invalid_config', `the deployment key must be ${KEY_BYTES} bytes`)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const jwksFile = join(directory, EXECUTOR_KEYS.file)
  const publish = (...keys: readonly PublicJwk[]) => replaceFile(jwksFile, JSON.stringify({ keys }))
  let current = { privateKey, jwk: await publicJwk(createPublicKey(privateKey)) }
  await publish(current.jwk)
  return {
    keyId: keyFingerprint(root),
    derive: (use) => deriveKey(root, use),
    get ticketKey() {
      return { kid: current.jwk.kid, privateKey: current.privateKey }
    },
    jwksFile,
    async rotate(next) {
      if (!isSameKey(next.root, root))
        throw new SandboxError('invalid_config', 'a new deployment key is used only after a restart')
      const jwk = await publicJwk(createPublicKey(next.privateKey))
      if (jwk.kid === current.jwk.kid) return false
      // Published before it is used.
      await publish(jwk, current.jwk)
      current = { privateKey: next.privateKey, jwk }
      return true
    },
  }
}

const isSameKey = (a: Uint8Array, b: Uint8Array) => a.length === b.length && timingSafeEqual(a, b)

type PublicJwk = Awaited<ReturnType<typeof publicJwk>>

/** The public half of a ticket key. Its `kid` is the one that tickets carry. */
export async function publicJwk(key: KeyObject) {
  const { kty, crv, x } = await exportJWK(key)
  return { kty, crv, x, kid: keyFingerprint(Buffer.from(String(x))), alg: 'EdDSA', use: 'sig' } as const
}

/** The bearer token of one run in one sandbox. It is derived on demand and never stored. */
export function turnToken(
  turnKey: Uint8Array,
  run: { runId: string; generation: number; instanceId: string },
): string {
  const key = deriveKey(turnKey, 'turn-token', run.runId, String(run.generation), run.instanceId)
  return Buffer.from(key).toString('base64url')
}

/**
 * The key with which the sandboxes of one run compute digests of requests that they redact. It depends only on the run,
 * because an approval must fit the same request in a later sandbox.
 */
export const runDigestKey = (digestKey: Uint8Array, runId: string): string =>
  Buffer.from(deriveKey(digestKey, 'raw-digest', runId)).toString('base64url')

/** Two processes may start at the same time. The first complete file wins. */
async function readOrMake(file: string, make: () => Buffer): Promise<Buffer> {
  const temporary = await writeTemporary(file, make())
  try {
    await link(temporary, file)
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error
  } finally {
    await unlink(temporary)
  }
  return readFile(file)
}

async function replaceFile(file: string, content: string): Promise<void> {
  await rename(await writeTemporary(file, content), file)
}

async function writeTemporary(file: string, content: string | Buffer): Promise<string> {
  const temporary = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  await writeFile(temporary, content, { flag: 'wx', mode: 0o600 })
  return temporary
}
