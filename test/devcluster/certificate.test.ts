import { X509Certificate } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createAuthority, issueCertificate } from '../../devcluster/pki/certificate.ts'
import { integer, oid } from '../../devcluster/pki/der.ts'

describe('a certificate', () => {
  const authority = createAuthority('test-ca')
  const pair = issueCertificate(authority, {
    subject: { commonName: 'system:node:a', organization: 'system:nodes' },
    usage: 'server',
    names: ['a.example', '10.0.0.1'],
  })
  const leaf = new X509Certificate(pair.certificate)
  const root = new X509Certificate(authority.certificate)

  it('has the given subject and names when OpenSSL reads it', () => {
    expect(leaf.subject).toBe('O=system:nodes\nCN=system:node:a')
    expect(leaf.subjectAltName).toBe('DNS:a.example, IP Address:10.0.0.1')
    expect(leaf.ca).toBe(false)
  })

  it('verifies only against its own authority', () => {
    const other = new X509Certificate(createAuthority('test-ca').certificate)

    expect(leaf.checkIssued(root)).toBe(true)
    expect(leaf.verify(root.publicKey)).toBe(true)
    expect(leaf.verify(other.publicKey)).toBe(false)
    expect(root.ca).toBe(true)
  })

  it('contains its key usage', () => {
    const client = issueCertificate(authority, { subject: { commonName: 'c' }, usage: 'client' })

    expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1'])
    expect(new X509Certificate(client.certificate).keyUsage).toEqual(['1.3.6.1.5.5.7.3.2'])
  })

  it('is valid from a moment before now, for several weeks', () => {
    expect(Date.parse(leaf.validFrom)).toBeLessThan(Date.now())
    expect(Date.parse(leaf.validTo)).toBeGreaterThan(Date.now() + 20 * 86_400_000)
  })
})

describe('DER', () => {
  it('encodes a positive integer with a leading zero when its high bit is set', () => {
    expect(integer(Buffer.from([0x80])).toString('hex')).toBe('02020080')
    expect(integer(Buffer.from([0x7f])).toString('hex')).toBe('02017f')
  })

  it('encodes object identifiers in base 128', () => {
    expect(oid('1.2.840.10045.4.3.2').toString('hex')).toBe('06082a8648ce3d040302')
  })
})
