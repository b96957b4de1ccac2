import { createPrivateKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { isIPv4 } from 'node:net'
import { bits, explicit, implicit, integer, octets, oid, sequence, set, time, truth, utf8 } from './der.ts'

export interface Subject {
  readonly commonName: string
  /** Kubernetes uses the organizations of a client certificate as the user's groups. */
  readonly organization?: string
}

export interface KeyPair {
  /** PEM texts of a certificate and its key. */
  readonly certificate: string
  readonly key: string
}

export interface Authority extends KeyPair {
  readonly subject: Subject
  readonly signingKey: KeyObject
}

export interface Leaf {
  readonly subject: Subject
  readonly usage: 'client' | 'server'
  /** DNS names and IPv4 addresses of the server. */
  readonly names?: readonly string[]
  /** The beginning of its validity. @default a minute ago */
  readonly from?: Date
}

const VALID_DAYS = 30
const ECDSA_WITH_SHA256 = sequence(oid('1.2.840.10045.4.3.2'))
const EXTENDED_USAGE = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' } as const
const KEY_CERT_SIGN_AND_CRL = Buffer.from([0x06])
const DIGITAL_SIGNATURE = Buffer.from([0x80])

/** A self-signed authority with an EC P-256 key. */
export function createAuthority(commonName: string): Authority {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const subject = { commonName }
  const extensions = [
    extension('2.5.29.19', true, sequence(truth())),
    extension('2.5.29.15', true, bits(KEY_CERT_SIGN_AND_CRL, 1)),
  ]
  const certificate = buildCertificate({ subject, issuer: subject, publicKey, extensions }, privateKey)
  return { subject, certificate, key: pemOf(privateKey), signingKey: privateKey }
}

/** A certificate for one client or server, signed by `authority`. */
export function issueCertificate(authority: Authority, { subject, usage, names = [], from }: Leaf): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const extensions = [
    extension('2.5.29.15', true, bits(DIGITAL_SIGNATURE, 7)),
    extension('2.5.29.37', false, sequence(oid(EXTENDED_USAGE[usage]))),
    ...(names.length > 0 ? [extension('2.5.29.17', false, sequence(...names.map(alternativeName)))] : []),
  ]
  const body = { subject, issuer: authority.subject, publicKey, extensions, from }
  return { certificate: buildCertificate(body, authority.signingKey), key: pemOf(privateKey) }
}

/** The key pair that signs service account tokens. */
export function createTokenKeys(): { readonly publicKey: string; readonly privateKey: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    publicKey: String(publicKey.export({ type: 'spki', format: 'pem' })),
    privateKey: pemOf(privateKey),
  }
}

function pemOf(key: KeyObject): string {
  return String(
    createPrivateKey(key.export({ type: 'pkcs8', format: 'pem' })).export({ type: 'sec1', format: 'pem' }),
  )
}

function extension(id: string, critical: boolean, value: Uint8Array): Buffer {
  return sequence(oid(id), ...(critical ? [truth()] : []), octets(value))
}

function alternativeName(name: string): Buffer {
  return isIPv4(name) ? implicit(7, Buffer.from(name.split('.').map(Number))) : implicit(2, Buffer.from(name))
}

function distinguishedName({ organization, commonName }: Subject): Buffer {
  const part = (id: string, text: string) => set(sequence(oid(id), utf8(text)))
  return sequence(...(organization ? [part('2.5.4.10', organization)] : []), part('2.5.4.3', commonName))
}

interface Body {
  readonly subject: Subject
  readonly issuer: Subject
  readonly publicKey: KeyObject
  readonly extensions: readonly Uint8Array[]
  readonly from?: Date | undefined
}

function buildCertificate(
  { subject, issuer, publicKey, extensions, from = new Date(Date.now() - 60_000) }: Body,
  signer: KeyObject,
): string {
  const to = new Date(from.getTime() + VALID_DAYS * 86_400_000)
  const serial = randomBytes(16)
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40
  const unsigned = sequence(
    explicit(0, integer(Buffer.from([2]))),
    integer(serial),
    ECDSA_WITH_SHA256,
    distinguishedName(issuer),
    sequence(time(from), time(to)),
    distinguishedName(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    explicit(3, sequence(...extensions)),
  )
  const whole = sequence(unsigned, ECDSA_WITH_SHA256, bits(sign('sha256', unsigned, signer)))
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}
