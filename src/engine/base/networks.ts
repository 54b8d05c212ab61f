import { BlockList, isIP } from 'node:net'

export function addSubnet(list: BlockList, subnet: string): void {
  const [address = '', length = ''] = subnet.split('/')
  list.addSubnet(address, Number(length), isIP(address) === 6 ? 'ipv6' : 'ipv4')
}

export function blockListOf(subnet: string): BlockList {
  const list = new BlockList()
  addSubnet(list, subnet)
  return list
}

/** `ADDR/LENGTH`, checked; null for anything else. */
export function parseCidr(text: string): string | null {
  const match = /^([0-9a-fA-F.:]+)\/([0-9]{1,3})$/.exec(text)
  if (match === null) return null
  const [, address = '', length = ''] = match
  const family = isIP(address)
  if (family === 0 || Number(length) > (family === 4 ? 32 : 128)) return null
  return `${address.toLowerCase()}/${Number(length)}`
}

export function isInCidr(address: string, cidr: string): boolean {
  const family = isIP(address)
  return family !== 0 && blockListOf(cidr).check(address, family === 6 ? 'ipv6' : 'ipv4')
}
