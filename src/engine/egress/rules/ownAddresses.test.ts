import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const execute = promisify(execFile)

/** In a network namespace of its own: what each address is refused for. */
async function refusals(setUp: string, addresses: readonly string[]): Promise<readonly (string | null)[]> {
  const file = (name: string) => JSON.stringify(join(import.meta.dirname, name))
  const script = `Promise.all([import(${file('ownAddresses.ts')}), import(${file('addresses.ts')})]).then(async ([{ ownAddresses }, { refusedAddress }]) => {
    const own = await ownAddresses()
    console.log(JSON.stringify(${JSON.stringify(addresses)}.map((address) => refusedAddress(address, own))))
  })`
  // What /sys says of devices is of the namespace it was mounted in.
  const inside = `set -e; mount -t sysfs sysfs /sys; ip link set lo up; ${setUp}; exec "$0" --no-warnings -e "$1"`
  const { stdout } = await execute('unshare', ['-Urnm', 'sh', '-c', inside, process.execPath, script])
  return JSON.parse(stdout) as (string | null)[]
}

test("this machine's own address is refused also where its interface has no carrier, and by a local route", async () => {
  const addresses = [
    '93.184.217.1',
    '93.184.219.7',
    '2a00:1:2:3::9',
    '2a00:9::77',
    '93.184.220.1',
    '2a00:1:2:4::9',
  ]
  const own = "this machine's own address"
  const withBoth = `ip link add vc type veth peer name vd; ip addr add 93.184.217.1/24 dev vc
    ip addr add 2a00:1:2:3::9/64 dev vc nodad; ip link set vc up
    ip route add local 93.184.219.0/24 dev lo; ip -6 route add local 2a00:9::/64 dev lo`
  expect(await refusals(withBoth, addresses)).toEqual([own, own, own, own, null, null])
  expect(await refusals('true', addresses)).toEqual(addresses.map(() => null))
})

const beside = 'address of the local network'

test('a public address on a cable of this machine is refused: without a carrier, with an address for one host only, and by a route without a gateway', async () => {
  const addresses = [
    '93.184.217.5',
    '::ffff:93.184.217.5',
    '93.184.222.0',
    '93.184.222.5',
    '2a00:1:2:3::5',
    '2a00:1:2:5::',
    '93.184.218.5',
    '93.184.230.5',
    '2a00:1:2:4::5',
    '2a00:1:2:6::5',
  ]
  const attached = `ip link add vc type veth peer name vd; ip addr add 93.184.217.1/24 dev vc
    ip addr add 2a00:1:2:3::9/128 dev vc nodad; ip link set vc up
    ip -6 route add 2a00:1:2:3::/64 dev vc; ip -6 route add 2a00:1:2:5::/64 dev vc
    ip route add 93.184.222.0/24 dev vc`
  // What a router there carries on is beyond the cable.
  const beyond = `ip route add 93.184.230.0/24 via 93.184.217.9; ip route add default via 93.184.217.9
    ip -6 route add 2a00:1:2:6::/64 via 2a00:1:2:3::1; ip route add unreachable 93.184.218.0/24`
  const refused = addresses.map((_, index) => (index < 6 ? beside : null))
  expect(await refusals(`${attached}; ${beyond}`, addresses)).toEqual(refused)
  expect(await refusals('true', addresses)).toEqual(addresses.map(() => null))
})

test('what only says the way out is no local network: a tunnel, halves of the internet, a lone address', async ({
  skip,
}) => {
  const mayMake = await access('/dev/net/tun', constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  )
  skip(!mayMake, 'this user may not open /dev/net/tun')
  const addresses = ['93.184.223.5', '93.184.240.5', '193.0.0.5', '2a00:7::5', '93.184.217.5', '93.184.250.5']
  const ways = `ip tuntap add mode tun name t0; ip addr add 93.184.250.1/32 dev t0; ip link set t0 up
    ip addr add 2a00:8::1/128 dev t0 nodad; ip route add 93.184.250.0/24 dev t0
    ip route add 93.184.223.0/24 dev t0; ip route add 0.0.0.0/1 dev t0; ip -6 route add 2000::/3 dev t0
    ip link add vc type veth peer name vd; ip addr add 93.184.217.1/32 dev vc; ip link set vc up
    ip route add 128.0.0.0/1 dev vc; ip route add default dev vc`
  // The last one lies beside an address of the tunnel's own.
  expect(await refusals(ways, addresses)).toEqual([null, null, null, null, null, beside])
})
