import { X509Certificate } from 'node:crypto'
import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { getCACertificates } from 'node:tls'
import { EGRESS_TRUST_FILE } from '../../../contracts/egress.ts'
import { IntermediateAuthorities } from '../../egress-ca/intermediate.ts'
import { deriveRoot } from '../../egress-ca/root.ts'
import { messageOf, SandboxError } from '../../kit/errors.ts'

/** What the proxy issues certificates with, and what the commands of a sandbox trust. */
export interface EgressTrust {
  readonly authorities: IntermediateAuthorities
  /** Certificates in PEM: the roots of the proxy, of the public, of this machine, and of the operator. */
  readonly bundle: string
  /** The root of the proxy alone, in PEM. */
  readonly root: string
  readonly rootsFile?: string | undefined
}

/** `secret` is derived from the deployment key. Throws `invalid_config` if the operator's file is not valid. */
export async function createTrust(secret: Uint8Array, rootsFile?: string): Promise<EgressTrust> {
  const root = deriveRoot(secret)
  const own = rootsFile === undefined ? [] : await readRoots(rootsFile)
  const all = [root.certificate, ...getCACertificates('bundled'), ...getCACertificates('system'), ...own]
  const bundle = [...new Set(all.map((certificate) => `${certificate.trim()}\n`))].join('')
  return { authorities: new IntermediateAuthorities(root), bundle, root: root.certificate, rootsFile }
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Every certificate is parsed: a program that finds an invalid one in a bundle may trust none of them. */
async function readRoots(file: string): Promise<string[]> {
  try {
    const found = (await readFile(file, 'utf8')).match(CERTIFICATE) ?? []
    if (found.length === 0) throw new Error(`${file} has no certificate in PEM`)
    return found.map((certificate) => new X509Certificate(certificate).toString())
  } catch (error) {
    return refuse(error)
  }
}

function refuse(cause: unknown): never {
  throw new SandboxError('invalid_config', `AGENTWEAVER_EGRESS_ROOTS_FILE: ${messageOf(cause)}`, { cause })
}

/** Writes the certificates that the commands of a sandbox trust. */
export async function writeTrustBundle(folder: string, { bundle }: EgressTrust): Promise<void> {
  const file = join(folder, EGRESS_TRUST_FILE)
  await writeFile(`${file}.new`, bundle, { mode: 0o644 })
  await rename(`${file}.new`, file)
}
