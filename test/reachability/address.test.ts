import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  contains,
  covers,
  formatAddress,
  overlaps,
  parseAddress,
  parseRange,
} from '../../reachability/address.ts'

const range = (text: string) => {
  const parsed = parseRange(text)
  if (parsed === undefined) throw new Error(`"${text}" is no range`)
  return parsed
}
const isIn = (cidr: string, ip: string) => {
  const address = parseAddress(ip)
  return address !== undefined && contains(range(cidr), address)
}

describe('an address', () => {
  it.each([
    ['10.0.0.1', '10.0.0.1'],
    ['::1', '::1'],
    ['FD00:EC2::254', 'fd00:ec2::254'],
    ['2001:db8:0:0:0:0:0:1', '2001:db8::1'],
    ['::ffff:169.254.169.254', '169.254.169.254'],
    ['::ffff:a9fe:a9fe', '169.254.169.254'],
    ['64:ff9b::169.254.169.254', '64:ff9b::a9fe:a9fe'],
  ])('%s parses as %s', (text, usual) => {
    const address = parseAddress(text)

    expect(address && formatAddress(address)).toBe(usual)
  })

  it.each(['', '10.0.0', '10.0.0.256', '010.0.0.1', '0x7f.1', '1', 'fe80::1%eth0', 'localhost', ' 10.0.0.1'])(
    'does not parse from %j',
    (text) => {
      expect(parseAddress(text)).toBeUndefined()
    },
  )
})

describe('a range', () => {
  it.each([
    ['10.0.0.0/8', '10.255.255.255', true],
    ['10.0.0.0/8', '11.0.0.0', false],
    ['10.9.9.9/8', '10.0.0.0', true],
    ['0.0.0.0/0', '255.255.255.255', true],
    ['0.0.0.0/0', '::1', false],
    ['::/0', '10.0.0.1', false],
    ['fc00::/7', 'fd00:ec2::254', true],
    ['fe80::/10', 'fec0::1', false],
    ['169.254.169.254/32', '::ffff:169.254.169.254', true],
    ['168.63.129.16', '168.63.129.16', true],
  ])('%s contains %s: %s', (cidr, ip, isMember) => {
    expect(isIn(cidr, ip)).toBe(isMember)
  })

  it.each([
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/08',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '/8',
    '::ffff:10.0.0.0/104',
    '::FFFF:10.0.0.1',
    '::ffff:a00:1/32',
    '0:0:0:0:0:ffff:10.0.0.1/32',
    '0:0:0:0:0:FFFF:a00:1/24',
    '0000:0000:0000:0000:0000:ffff:0a00:0001',
    '0::ffff:10.0.0.1/32',
    '0:0::ffff:10.0.0.1/8',
    '::0:ffff:10.0.0.1/32',
    '0::0:ffff:10.0.0.1/32',
    '0:0:0:0:0:ffff::/32',
  ])('does not parse from %s', (text) => {
    expect(parseRange(text)).toBeUndefined()
  })

  it('covers a contained range, and overlaps a range with a common address', () => {
    expect(covers(range('10.0.0.0/8'), range('10.1.0.0/16'))).toBe(true)
    expect(covers(range('10.1.0.0/16'), range('10.0.0.0/8'))).toBe(false)
    expect(overlaps(range('10.1.0.0/16'), range('10.0.0.0/8'))).toBe(true)
    expect(overlaps(range('10.1.0.0/16'), range('10.2.0.0/16'))).toBe(false)
    expect(overlaps(range('0.0.0.0/0'), range('::/0'))).toBe(false)
  })

  it('contains an address exactly if its first bits are the same', () => {
    const octets = fc.tuple(fc.nat(255), fc.nat(255), fc.nat(255), fc.nat(255))
    const bitsOf = (parts: readonly number[]) =>
      parts.map((part) => part.toString(2).padStart(8, '0')).join('')
    fc.assert(
      fc.property(octets, octets, fc.nat(32), (network, ip, bits) => {
        const isMember = bitsOf(network).slice(0, bits) === bitsOf(ip).slice(0, bits)

        expect(isIn(`${network.join('.')}/${bits}`, ip.join('.'))).toBe(isMember)
      }),
    )
  })

  it('keeps every address through formatting and parsing', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (text) => {
        const address = parseAddress(text)
        const again = address && parseAddress(formatAddress(address))

        expect(again).toEqual(address)
        expect(address).toBeDefined()
      }),
    )
  })
})
