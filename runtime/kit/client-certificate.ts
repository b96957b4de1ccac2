import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { errnoOf } from './errors.ts'

/** A certificate chain and its private key, in PEM. */
export interface ClientCertificate {
  /** The certificate of the client first. */
  readonly cert: string
  /** It must never be in a log, an event or an error. */
  readonly key: string
  readonly validFrom: Date
  readonly validTo: Date
}

export type ParsedClientCertificate =
  | { readonly ok: true; readonly certificate: ClientCertificate }
  /** Says what is wrong without quoting the text. */
  | { readonly ok: false; readonly reason: string }

const BLOCK = /-----BEGIN ([A-Z0-9 ]+)-----\r?\n[\x20-\x7e\r\n]*?-----END \1-----/g

const fault = (reason: string) => ({ ok: false, reason }) as const

/** Reads a PEM text with one unencrypted private key and the certificates of a chain. Text around the blocks is ignored. */
export function parseClientCertificate(text: string): ParsedClientCertificate {
  const blocks = [...text.matchAll(BLOCK)].map(([block, label = '']) => ({ block, label }))
  const keys = blocks.filter(({ label }) => label.endsWith('PRIVATE KEY'))
  const certificates = blocks.filter(({ label }) => label === 'CERTIFICATE').map(({ block }) => block)
  const [key] = keys
  if (!key || keys.length > 1) return fault(`it must have one private key in PEM, and has ${keys.length}`)
  if (isEncrypted(key)) return fault('its private key is encrypted; store it without a passphrase')
  if (certificates.length === 0) return fault('it has no certificate in PEM')
  return checked(key.block, certificates)
}

const isEncrypted = ({ block, label }: { readonly block: string; readonly label: string }) =>
  label.startsWith('ENCRYPTED') || /^Proc-Type:.*ENCRYPTED/m.test(block)

function checked(key: string, certificates: readonly string[]): ParsedClientCertificate {
  const keyObject = readKey(key)
  if (!keyObject) return fault('its private key cannot be read')
  const read = certificates.map(readCertificate)
  const [first] = read
  const unread = read.indexOf(undefined)
  if (!first || unread >= 0) return fault(`its certificate ${unread + 1} cannot be read`)
  if (!first.checkPrivateKey(keyObject))
    return fault('its private key does not fit its first certificate, which must be the one of the client')
  const cert = certificates.map((one) => `${one}\n`).join('')
  const certificate = {
    ...{ cert, key: `${key}\n` },
    ...{ validFrom: new Date(first.validFrom), validTo: new Date(first.validTo) },
  }
  const refused = tlsFault(certificate)
  return refused === undefined ? { ok: true, certificate } : fault(refused)
}

function readKey(pem: string): KeyObject | undefined {
  try {
    return createPrivateKey(pem)
  } catch {
    return undefined
  }
}

function readCertificate(pem: string): X509Certificate | undefined {
  try {
    return new X509Certificate(pem)
  } catch {
    return undefined
  }
}

/** OpenSSL refuses weak keys and signatures, which only shows when they are used. */
function tlsFault({ cert, key }: Pick<ClientCertificate, 'cert' | 'key'>): string | undefined {
  try {
    createSecureContext({ cert, key })
    return undefined
  } catch (error) {
    return `TLS does not accept it (${errnoOf(error) ?? 'unknown error'})`
  }
}

/** Why a certificate cannot be used at this time, or undefined. */
export function validityFault(
  { validFrom, validTo }: Pick<ClientCertificate, 'validFrom' | 'validTo'>,
  now: number,
): string | undefined {
  if (now > validTo.getTime()) return `its certificate has expired at ${validTo.toISOString()}`
  return now < validFrom.getTime()
    ? `its certificate is valid only from ${validFrom.toISOString()}`
    : undefined
}

/** The texts by which a redactor finds the private key: its lines, without the words that every key has. */
export function keyTexts({ key }: Pick<ClientCertificate, 'key'>): string[] {
  const lines = key.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith('-----'))
  return [lines.join('\n'), lines.join('')]
}
