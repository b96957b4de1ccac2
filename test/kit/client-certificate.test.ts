import { createPrivateKey } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { keyTexts, parseClientCertificate, validityFault } from '../../runtime/kit/client-certificate.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'

const authority = createTestAuthority()
const { certificate, key, pem } = authority.clientFor('builder')
const other = authority.clientFor('other')
const broken = (label: string) => `-----BEGIN ${label}-----\nbm90IERFUg==\n-----END ${label}-----\n`
const encrypted = (passphrase: string) =>
  String(createPrivateKey(key).export({ type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase }))
const pkcs8 = String(createPrivateKey(key).export({ type: 'pkcs8', format: 'pem' }))

describe('the text of a client certificate', () => {
  it.for([
    ['a certificate and its key', pem],
    ['the key first', `${key}${certificate}`],
    ['a chain', `${certificate}${authority.certificate}${key}`],
    ['a key in PKCS #8', `${certificate}${pkcs8}`],
    ['line breaks of Windows', pem.replaceAll('\n', '\r\n')],
    [
      'words around the blocks, as openssl writes them',
      `Bag Attributes: é\n${certificate}\nsubject=x\n${key}`,
    ],
  ])('may have %s', ([_name, text = '']) => {
    const parsed = parseClientCertificate(text)

    expect(parsed).toMatchObject({ ok: true })
    if (!parsed.ok) return
    expect(parsed.certificate.cert.match(/BEGIN CERTIFICATE/g)).toHaveLength(
      text.includes(authority.certificate) ? 2 : 1,
    )
    expect(parsed.certificate.cert).not.toContain('PRIVATE KEY')
    expect(parsed.certificate.key).not.toContain('CERTIFICATE')
    expect(validityFault(parsed.certificate, Date.now())).toBeUndefined()
  })

  it.for([
    ['nothing', '', 'one private key in PEM, and has 0'],
    ['a token', 'ghp_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'one private key in PEM, and has 0'],
    ['no key', certificate, 'one private key in PEM, and has 0'],
    ['two keys', `${pem}${other.key}`, 'one private key in PEM, and has 2'],
    ['no certificate', key, 'no certificate'],
    ['an encrypted key', `${certificate}${encrypted('secret')}`, 'is encrypted'],
    [
      'a key that is encrypted in the older way',
      `${certificate}${key.replace('-----\n', '-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n')}`,
      'is encrypted',
    ],
    ['the key of another certificate', `${certificate}${other.key}`, 'does not fit its first certificate'],
    ['the authority first', `${authority.certificate}${pem}`, 'does not fit its first certificate'],
    ['a key that is none', `${certificate}${broken('PRIVATE KEY')}`, 'private key cannot be read'],
    ['a certificate that is none', `${pem}${broken('CERTIFICATE')}`, 'certificate 2 cannot be read'],
  ])('is refused with %s, and the reason does not quote it', ([_name, text = '', reason]) => {
    const parsed = parseClientCertificate(text)

    expect(parsed).toMatchObject({ ok: false, reason: expect.stringContaining(String(reason)) })
    const [, line = ''] = key.split('\n')
    expect(JSON.stringify(parsed)).not.toContain(line)
  })
})

it('a client certificate is used neither before its validity nor after it', () => {
  const validity = { validFrom: new Date('2026-01-01T00:00:00Z'), validTo: new Date('2026-02-01T00:00:00Z') }
  const at = (time: string) => validityFault(validity, Date.parse(time))

  expect(at('2025-12-31T23:59:59Z')).toContain('valid only from 2026-01-01')
  expect(at('2026-01-15T00:00:00Z')).toBeUndefined()
  expect(at('2026-02-01T00:00:01Z')).toContain('expired at 2026-02-01')
})

it('the texts of a key for the redactor have its lines, and no word of every key', () => {
  const [, first = ''] = key.split('\n')

  const [lines = '', joined = ''] = keyTexts({ key })

  expect(lines.split('\n')).toContain(first)
  expect(joined).toBe(lines.replaceAll('\n', ''))
  expect(`${lines}${joined}`).not.toContain('-----')
})
