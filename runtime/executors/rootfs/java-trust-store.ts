import { createHash, X509Certificate } from 'node:crypto'

const MAGIC = 0xfeed_feed
const VERSION = 2
const TRUSTED_CERTIFICATE = 2
/** The format ends with a digest of these bytes and the content. Java checks it only if it has the password. */
const DIGEST_PREFIX = 'Mighty Aphrodite'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/**
 * A Java key store (JKS) with the certificates of a bundle in PEM. Java reads no PEM file, and `keytool` takes half a
 * second per certificate.
 */
export function javaTrustStore(bundle: string): Buffer {
  const entries = (bundle.match(CERTIFICATE) ?? []).map((pem, index) => entry(`root-${index}`, pem))
  const content = Buffer.concat([uint32(MAGIC), uint32(VERSION), uint32(entries.length), ...entries])
  const digest = createHash('sha1').update(DIGEST_PREFIX).update(content).digest()
  return Buffer.concat([content, digest])
}

function entry(alias: string, pem: string): Buffer {
  const certificate = new X509Certificate(pem).raw
  const created = Buffer.alloc(8)
  return Buffer.concat([
    uint32(TRUSTED_CERTIFICATE),
    text(alias),
    created,
    text('X.509'),
    uint32(certificate.length),
    certificate,
  ])
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function text(value: string): Buffer {
  const length = Buffer.alloc(2)
  length.writeUInt16BE(value.length)
  return Buffer.concat([length, Buffer.from(value)])
}
