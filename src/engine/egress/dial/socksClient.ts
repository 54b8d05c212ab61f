import { isIPv4, isIPv6, type Socket } from 'node:net'
import { codedError } from './dial.ts'
import { ipv6Groups, type Target } from '../rules/names.ts'
import { readUntil, type Read } from '../line/reading.ts'

export type Login = { readonly user: string; readonly password: string }

const reasons: Readonly<Record<number, string>> = {
  1: 'failed',
  2: 'does not allow it',
  3: 'has no way to its network',
  4: 'cannot reach it',
  5: 'was refused by it',
  6: 'waited too long',
  7: 'does not connect',
  8: 'does not know such addresses',
}

/** Asks a SOCKS5 proxy (RFC 1928, with the login of RFC 1929) for a way to a host, by its name or address. */
export async function askSocks(
  socket: Socket,
  target: Target,
  login: Login | null,
  deadline: number,
): Promise<void> {
  const read = async <T>(parse: (bytes: Buffer) => Read<T> | null): Promise<T> => {
    const value = await readUntil(socket, parse, Math.max(0, deadline - Date.now()))
    if (value === null) throw codedError('gave no answer')
    return value
  }
  const pair = (bytes: Buffer) => (bytes.length < 2 ? null : { value: bytes[1] ?? 255, used: 2 })
  socket.write(Buffer.from(login === null ? [5, 1, 0] : [5, 2, 0, 2]))
  const method = await read(pair)
  if (method === 2 && login !== null) {
    const [user, password] = [Buffer.from(login.user), Buffer.from(login.password)]
    if (user.length > 255 || password.length > 255) throw codedError('takes no login as long as this')
    socket.write(
      Buffer.concat([Buffer.from([1, user.length]), user, Buffer.from([password.length]), password]),
    )
    if ((await read(pair)) !== 0) throw codedError('does not take the login')
  } else if (method !== 0) throw codedError('wants a login')
  socket.write(Buffer.concat([Buffer.from([5, 1, 0]), addressOf(target.host), portOf(target.port)]))
  const reply = await read(parseReply)
  if (reply !== 0) throw codedError(reasons[reply] ?? 'gave an answer nobody understands')
}

function addressOf(host: string): Buffer {
  if (isIPv4(host)) return Buffer.from([1, ...host.split('.').map(Number)])
  if (isIPv6(host))
    return Buffer.from([4, ...(ipv6Groups(host) ?? []).flatMap((group) => [group >> 8, group & 255])])
  return Buffer.concat([Buffer.from([3, host.length]), Buffer.from(host)])
}
const portOf = (port: number) => Buffer.from([port >> 8, port & 255])

/** The code of a reply, whose address nobody needs. */
export function parseReply(bytes: Buffer): Read<number> | null {
  if (bytes.length < 5) return null
  if (bytes[0] !== 5) return { value: 255, used: bytes.length }
  const length = bytes[3] === 1 ? 4 : bytes[3] === 4 ? 16 : bytes[3] === 3 ? 1 + (bytes[4] ?? 0) : null
  if (length === null) return { value: 255, used: bytes.length }
  const used = 4 + length + 2
  return bytes.length < used ? null : { value: bytes[1] ?? 255, used }
}
