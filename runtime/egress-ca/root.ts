import { createECDH, createPrivateKey, createPublicKey, hkdfSync, type KeyObject } from 'node:crypto'
import { issue } from './certificate.ts'

/** The authority that sandboxes trust. Its key never leaves the process that derived it. */
export interface RootAuthority {
  readonly name: string
  readonly certificate: string
  readonly key: KeyObject
}

const NAME = 'Agentweaver egress root'
/** The order of the group of P-256. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
const KEY_BYTES = 32
/** 128 bits more than the order has, so that the remainder has no measurable bias (FIPS 186-5, A.2.1). */
const SEED_BYTES = 48
/** Constant, so that every replica and every restart creates an equal authority. Only the signature differs. */
const FROM = new Date('2026-01-01T00:00:00Z')
const TO = new Date('2049-12-31T00:00:00Z')
const SERIAL = Uint8Array.of(1)

/** Derives the root authority from a secret of the deployment. */
export function deriveRoot(secret: Uint8Array): RootAuthority {
  const key = keyOf(secret)
  const certificate = issue({
    subject: NAME,
    publicKey: createPublicKey(key),
    signer: { name: NAME, key },
    use: { kind: 'root' },
    from: FROM,
    to: TO,
    serial: SERIAL,
  })
  return { name: NAME, certificate, key }
}

function keyOf(secret: Uint8Array): KeyObject {
  const seed = Buffer.from(hkdfSync('sha256', secret, '', 'agentweaver/egress-root/v1', SEED_BYTES))
  const scalar = (BigInt(`0x${seed.toString('hex')}`) % (ORDER - 1n)) + 1n
  const d = Buffer.from(scalar.toString(16).padStart(KEY_BYTES * 2, '0'), 'hex')
  const curve = createECDH('prime256v1')
  curve.setPrivateKey(d)
  // 0x04, x, y
  const point = curve.getPublicKey()
  const part = (bytes: Buffer) => bytes.toString('base64url')
  const jwk = {
    kty: 'EC',
    crv: 'P-256',
    d: part(d),
    x: part(point.subarray(1, 1 + KEY_BYTES)),
    y: part(point.subarray(1 + KEY_BYTES)),
  }
  return createPrivateKey({ format: 'jwk', key: jwk })
}
