import { execFile } from 'node:child_process'
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
  const inside = `set -e; ip link set lo up; ${setUp}; exec "$0" --no-warnings -e "$1"`
  const { stdout } = await execute('unshare', ['-Urn', 'sh', '-c', inside, process.execPath, script])
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
