import { expect, test } from 'vitest'
import { isInCidr, parseCidr } from '../../base/networks.ts'
import { refusedAddress } from './addresses.ts'

test.each([
  ['127.0.0.1', 'loopback'],
  ['127.255.0.3', 'loopback'],
  ['0.0.0.0', 'unspecified'],
  ['169.254.169.254', 'metadata'],
  ['168.63.129.16', 'metadata'],
  ['10.1.2.3', 'private'],
  ['172.31.0.1', 'private'],
  ['192.168.1.1', 'private'],
  ['100.100.100.200', 'metadata'],
  ['224.0.0.251', 'multicast'],
  ['255.255.255.255', 'multicast or broadcast'],
  ['198.51.100.4', 'reserved'],
  ['::1', 'loopback'],
  ['::', 'unspecified'],
  ['fe80::1', 'link-local'],
  ['fd00:ec2::254', 'metadata'],
  ['ff02::1', 'multicast'],
  ['::ffff:127.0.0.1', 'loopback'],
  ['::ffff:a9fe:a9fe', 'metadata'],
  ['::127.0.0.1', 'not a public'],
  ['64:ff9b::7f00:1', 'loopback'],
  ['64:ff9b::169.254.169.254', 'NAT64'],
  ['64:ff9b:1::1', 'not a public'],
  ['2002:7f00:1::', 'tunnelled'],
  ['2001:0:4136:e378::', 'tunnelled'],
  ['2001:db8::1', 'reserved'],
  ['100::1', 'not a public'],
  ['nonsense', 'not an address'],
])('%s is refused as %s', (address, why) => {
  expect(refusedAddress(address, [])).toContain(why)
})

test.each(['1.1.1.1', '172.32.0.1', '2606:4700::1111', '64:ff9b::101:101', '::ffff:1.1.1.1'])(
  '%s is public',
  (address) => {
    expect(refusedAddress(address, [])).toBeNull()
  },
)

test("this machine's own public addresses and their networks are refused", () => {
  const own = [
    { address: '8.8.4.4', cidr: '8.8.4.4/24' },
    { address: '2a00:1:2:3::9', cidr: '2a00:1:2:3::9/64' },
    { address: '9.9.9.9', cidr: null },
    { address: '5.5.5.5', cidr: '5.5.5.5/0' },
  ]
  expect(refusedAddress('8.8.4.4', own)).toContain('own address')
  expect(refusedAddress('8.8.4.77', own)).toContain('local network')
  expect(refusedAddress('2a00:1:2:3::77', own)).toContain('local network')
  expect(refusedAddress('9.9.9.9', own)).toContain('own address')
  expect(refusedAddress('8.8.5.1', own)).toBeNull()
  expect(refusedAddress('2a00:1:2:4::77', own)).toBeNull()
})

test('networks are read strictly', () => {
  expect(parseCidr('10.0.0.0/8')).toBe('10.0.0.0/8')
  for (const text of ['10.0.0.0', '10.0.0.0/33', '10.0.0/8', 'fe80::/129', '/8', 'x/8', '10.0.0.0/']) {
    expect(parseCidr(text), text).toBeNull()
  }
  expect(isInCidr('10.9.9.9', '10.0.0.0/8')).toBe(true)
  expect(isInCidr('11.9.9.9', '10.0.0.0/8')).toBe(false)
})
