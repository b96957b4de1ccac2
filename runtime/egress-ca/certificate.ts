import { createHash, createPublicKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import { AsnConvert, OctetString } from '@peculiar/asn1-schema'
import {
  AlgorithmIdentifier,
  AttributeTypeAndValue,
  AttributeValue,
  AuthorityKeyIdentifier,
  BasicConstraints,
  Certificate,
  ExtendedKeyUsage,
  Extension,
  Extensions,
  GeneralName,
  GeneralSubtree,
  GeneralSubtrees,
  id_ce_authorityKeyIdentifier,
  id_ce_basicConstraints,
  id_ce_extKeyUsage,
  id_ce_keyUsage,
  id_ce_nameConstraints,
  id_ce_subjectAltName,
  id_ce_subjectKeyIdentifier,
  id_kp_serverAuth,
  KeyIdentifier,
  KeyUsage,
  KeyUsageFlags,
  Name,
  NameConstraints,
  RelativeDistinguishedName,
  SubjectAlternativeName,
  SubjectKeyIdentifier,
  SubjectPublicKeyInfo,
  TBSCertificate,
  Validity,
  Version,
} from '@peculiar/asn1-x509'

/** The use that a certificate permits for its key. */
export type CertificateUse =
  | { readonly kind: 'root' }
  /** Signs certificates of servers, only for these names and the names below them, and for no address. */
  | { readonly kind: 'intermediate'; readonly names: readonly string[] }
  /** Identifies a server with these names. A name may start with `*.`. */
  | { readonly kind: 'server'; readonly names: readonly string[] }

/** A private key (EC P-256), and the common name in the certificate of its owner. */
export interface Signer {
  readonly name: string
  readonly key: KeyObject
}

export interface CertificateOrder {
  /** The common name. */
  readonly subject: string
  readonly publicKey: KeyObject
  readonly signer: Signer
  readonly use: CertificateUse
  readonly from: Date
  readonly to: Date
  /** @default random */
  readonly serial?: Uint8Array
}

const COMMON_NAME = '2.5.4.3'
const ECDSA_WITH_SHA256 = new AlgorithmIdentifier({ algorithm: '1.2.840.10045.4.3.2' })
const ALL_ADDRESSES = ['0.0.0.0/0', '::/0']
const NOTHING_BELOW = 0

/** Issues a certificate in PEM. */
export function issue({ serial = randomSerial(), ...order }: CertificateOrder): string {
  const { subject, publicKey, signer, from, to } = order
  const body = new TBSCertificate({
    version: Version.v3,
    serialNumber: bufferOf(serial),
    signature: ECDSA_WITH_SHA256,
    issuer: nameOf(signer.name),
    validity: new Validity({ notBefore: from, notAfter: to }),
    subject: nameOf(subject),
    subjectPublicKeyInfo: keyInfoOf(publicKey),
    extensions: new Extensions(extensionsOf(order)),
  })
  const certificate = new Certificate({
    tbsCertificate: body,
    signatureAlgorithm: ECDSA_WITH_SHA256,
    signatureValue: bufferOf(sign('sha256', Buffer.from(AsnConvert.serialize(body)), signer.key)),
  })
  return pemOf(Buffer.from(AsnConvert.serialize(certificate)))
}

/** Strict clients, such as Python from 3.13, require the key identifiers and which extensions are critical. */
function extensionsOf({ publicKey, signer, use }: CertificateOrder): Extension[] {
  const identifiers = [
    extension(id_ce_subjectKeyIdentifier, new SubjectKeyIdentifier(keyIdentifier(publicKey))),
    extension(
      id_ce_authorityKeyIdentifier,
      new AuthorityKeyIdentifier({
        keyIdentifier: new KeyIdentifier(keyIdentifier(createPublicKey(signer.key))),
      }),
    ),
  ]
  if (use.kind === 'server')
    return [
      critical(id_ce_basicConstraints, new BasicConstraints({ cA: false })),
      critical(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.digitalSignature)),
      extension(id_ce_extKeyUsage, new ExtendedKeyUsage([id_kp_serverAuth])),
      extension(id_ce_subjectAltName, new SubjectAlternativeName(use.names.map(dnsName))),
      ...identifiers,
    ]
  const signs = critical(id_ce_keyUsage, new KeyUsage(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign))
  if (use.kind === 'root')
    return [critical(id_ce_basicConstraints, new BasicConstraints({ cA: true })), signs, ...identifiers]
  return [
    critical(id_ce_basicConstraints, new BasicConstraints({ cA: true, pathLenConstraint: NOTHING_BELOW })),
    signs,
    extension(id_ce_extKeyUsage, new ExtendedKeyUsage([id_kp_serverAuth])),
    critical(id_ce_nameConstraints, constraintsFor(use.names)),
    ...identifiers,
  ]
}

/** A permitted name includes all names below it (RFC 5280), so a wildcard is written as the name after it. */
function constraintsFor(names: readonly string[]): NameConstraints {
  const permitted = new Set(names.map((name) => (name.startsWith('*.') ? name.slice(2) : name)))
  // Without a permitted name, every name would be.
  if (permitted.size === 0) throw new TypeError('an intermediate authority needs at least one name')
  return new NameConstraints({
    permittedSubtrees: new GeneralSubtrees(
      [...permitted].map((name) => new GeneralSubtree({ base: dnsName(name) })),
    ),
    excludedSubtrees: new GeneralSubtrees(
      ALL_ADDRESSES.map((range) => new GeneralSubtree({ base: new GeneralName({ iPAddress: range }) })),
    ),
  })
}

const dnsName = (name: string) => new GeneralName({ dNSName: name })

const extension = (extnID: string, value: object, isCritical = false): Extension =>
  new Extension({
    extnID,
    critical: isCritical,
    extnValue: new OctetString(AsnConvert.serialize(value)),
  })

const critical = (id: string, value: object): Extension => extension(id, value, true)

const nameOf = (commonName: string): Name =>
  new Name([
    new RelativeDistinguishedName([
      new AttributeTypeAndValue({
        type: COMMON_NAME,
        value: new AttributeValue({ utf8String: commonName }),
      }),
    ]),
  ])

const keyInfoOf = (key: KeyObject): SubjectPublicKeyInfo =>
  AsnConvert.parse(key.export({ type: 'spki', format: 'der' }), SubjectPublicKeyInfo)

/** Method 1 of RFC 7093: the first 160 bits of SHA-256 over the public key. */
function keyIdentifier(key: KeyObject): ArrayBuffer {
  const { subjectPublicKey } = keyInfoOf(key)
  return bufferOf(createHash('sha256').update(Buffer.from(subjectPublicKey)).digest().subarray(0, 20))
}

/** Positive, and without a leading zero. */
function randomSerial(): Uint8Array {
  const serial = randomBytes(16)
  serial[0] = ((serial[0] as number) & 0x7f) | 0x40
  return serial
}

const bufferOf = (bytes: Uint8Array): ArrayBuffer => new Uint8Array(bytes).buffer

function pemOf(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}
