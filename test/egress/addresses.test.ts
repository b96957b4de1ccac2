import { describe, expect, it } from 'vitest'
import { addressFault } from '../../runtime/egress/addresses.ts'

const fault = (address: string, allowed?: string[], own: string[] = []) =>
  addressFault({ address, own, allowed })

describe('an address', () => {
  it.each([
    '1.1.1.1',
    '140.82.121.4',
    '2606:4700::1111',
    '64:ff9b::101:101',
    '2002:101:101::1',
    '::ffff:1.1.1.1',
  ])('%s may be dialled', (address) => {
    expect(fault(address)).toBeUndefined()
  })

  it.each([
    ...[
      '10.0.0.1',
      '100.64.0.1',
      '127.0.0.1',
      '127.255.255.254',
      '172.16.0.1',
      '172.31.255.255',
      '192.168.1.1',
    ],
    ...[
      '192.0.0.1',
      '198.18.0.1',
      '203.0.113.9',
      '::1',
      'fc00::1',
      'fdff::1',
      '2001:db8::1',
      '100::1',
      '1::1',
    ],
    // IPv4 in IPv6: mapped, compatible, translated, NAT64, 6to4, Teredo (inverted), ISATAP.
    ...[
      '::ffff:127.0.0.1',
      '::ffff:7f00:1',
      '::127.0.0.1',
      '::ffff:0:7f00:1',
      '64:ff9b::7f00:1',
      '64:ff9b::10.0.0.1',
    ],
    ...[
      '64:ff9b:1::a00:1',
      '64:ff9b:1:7f00:0:100:101:101',
      '2001:2::1',
      '2001:1::1',
      '2002:7f00:1::1',
      '2002:a00:1::',
      '2001:0:101:101::80ff:fffe',
      '2001:0:7f00:1::fefe:fefe',
    ],
    ...['2606:4700::5efe:7f00:1', '2606:4700::200:5efe:a00:1'],
  ])('%s is refused as private', (address) => {
    expect(fault(address)).toBe('it is a private address')
  })

  it.each([
    ...[
      '0.0.0.0',
      '169.254.169.254',
      '168.63.129.16',
      '100.100.100.200',
      '192.0.0.192',
      '224.0.0.1',
      '255.255.255.255',
    ],
    ...[
      'fd00:ec2::254',
      'fd20:ce::254',
      'fd00:42::42',
      'fd00:c1::a9fe:a9fe',
      'fe80::1',
      'ff02::1',
      '::',
      '::ffff:169.254.169.254',
      '64:ff9b::a9fe:a9fe',
    ],
    ...['2002:a9fe:a9fe::', '2001:0:101:101::5601:5601'],
  ])('%s is refused, even if an entry names its range', (address) => {
    expect(fault(address, ['0.0.0.0/0', '::/0'])).toContain('metadata')
  })

  it('is refused if it belongs to the machine of the proxy', () => {
    expect(fault('1.2.3.4', undefined, ['1.2.3.4'])).toContain('the machine of the egress proxy')
    expect(fault('::ffff:1.2.3.4', undefined, ['1.2.3.4'])).toContain('the machine of the egress proxy')
    expect(fault('1.2.3.5', undefined, ['1.2.3.4'])).toBeUndefined()
    expect(fault('10.1.2.3', ['10.1.0.0/16'], ['10.1.2.3'])).toContain('the machine of the egress proxy')
    expect(fault('10.1.2.3', ['10.1.2.3/32'], ['10.1.2.3'])).toBeUndefined()
  })

  it('may be private if the entry names its range, and only in this range', () => {
    expect(fault('10.1.2.3', ['10.1.0.0/16'])).toBeUndefined()
    expect(fault('::1', ['::1'])).toBeUndefined()
    expect(fault('10.2.0.1', ['10.1.0.0/16'])).toContain('outside')
    expect(fault('1.1.1.1', ['10.1.0.0/16'])).toContain('outside')
  })

  it.each(['', 'example.com', '1.2.3', '1.2.3.4.5', 'fe80::1%lo'])('%j is not an address', (address) => {
    expect(fault(address)).toBe('it is not an address')
  })
})
