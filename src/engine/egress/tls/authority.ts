import { createHash, generateKeyPair, randomBytes, sign, type KeyObject } from 'node:crypto'
import { createSecureContext, type SecureContext } from 'node:tls'
import { promisify } from 'node:util'
import {
  bits,
  identifier,
  integer,
  octets,
  sequence,
  set,
  tagged,
  taggedInPlace,
  text,
  time,
  truth,
} from './der.ts'

/**
 * Vouches, inside one sandbox, for the hosts of secrets whose TLS the user let us open, and for no other: the
 * certificate itself says so. Its key exists in this process only.
 */
export type Authority = {
  /** As PEM: what programs in the sandbox are to trust. */
  readonly certificate: string
  /** What a connection to one of its hosts is answered with. */
  contextFor(host: string): SecureContext
}

const day = 24 * 60 * 60_000
const lastsDays = 90
const mostContexts = 256
const ecdsaWithSha256 = sequence(identifier('1.2.840.10045.4.3.2'))

const generate = promisify(generateKeyPair)
const makeKey = async () => {
  const { privateKey, publicKey } = await generate('ec', { namedCurve: 'P-256' })
  const publicDer = publicKey.export({ type: 'spki', format: 'der' })
  return { privateKey, publicDer, id: createHash('sha1').update(publicDer).digest() }
}
type Key = Awaited<ReturnType<typeof makeKey>>

/** `hosts` are names; each stands for itself and what is below it. */
export async function makeAuthority(hosts: readonly string[]): Promise<Authority> {
  const [own, leaf] = await Promise.all([makeKey(), makeKey()])
  const name = nameOf(`Orangery, for one sandbox only (${randomBytes(4).toString('hex')})`)
  const permitted = hosts.map((host) => sequence(taggedInPlace(2, Buffer.from(host))))
  const certificate = pem(
    certify({ issuer: name, subject: name, subjectKey: own, signer: own.privateKey }, [
      extension('2.5.29.19', sequence(truth, integer(Buffer.from([0]))), true),
      extension('2.5.29.15', bits(Buffer.from([0x04]), 2), true),
      extension('2.5.29.14', octets(own.id)),
      // Whoever stole the key could still not pretend to be any other host. (escape: authority-reach)
      extension('2.5.29.30', sequence(tagged(0, ...permitted)), true),
    ]),
  )
  const key = leaf.privateKey.export({ type: 'pkcs8', format: 'pem' })
  const contexts = new Map<string, SecureContext>()
  const makeContext = (host: string) => {
    const issued = certify(
      { issuer: name, subject: nameOf('Orangery'), subjectKey: leaf, signer: own.privateKey },
      [
        extension('2.5.29.19', sequence()),
        extension('2.5.29.15', bits(Buffer.from([0x80]), 7), true),
        extension('2.5.29.37', sequence(identifier('1.3.6.1.5.5.7.3.1'))),
        extension('2.5.29.17', sequence(taggedInPlace(2, Buffer.from(host)))),
        extension('2.5.29.14', octets(leaf.id)),
        extension('2.5.29.35', sequence(taggedInPlace(0, own.id))),
      ],
    )
    return createSecureContext({ key, cert: pem(issued) })
  }
  return {
    certificate,
    contextFor: (host) => {
      const known = contexts.get(host)
      if (known !== undefined) return known
      // Below a wildcard the names are the agent's to invent.
      if (contexts.size >= mostContexts) contexts.clear()
      const made = makeContext(host)
      contexts.set(host, made)
      return made
    },
  }
}

type Certified = {
  readonly issuer: Buffer
  readonly subject: Buffer
  readonly subjectKey: Key
  readonly signer: KeyObject
}

function certify({ issuer, subject, subjectKey, signer }: Certified, extensions: readonly Buffer[]): Buffer {
  const now = Date.now()
  const serial = randomBytes(16)
  // Neither zero nor with a leading zero byte.
  serial[0] = 0x40 | ((serial[0] ?? 0) & 0x3f)
  const body = sequence(
    tagged(0, integer(Buffer.from([2]))),
    integer(serial),
    ecdsaWithSha256,
    issuer,
    sequence(time(new Date(now - day)), time(new Date(now + lastsDays * day))),
    subject,
    subjectKey.publicDer,
    tagged(3, sequence(...extensions)),
  )
  return sequence(body, ecdsaWithSha256, bits(sign('sha256', body, signer)))
}

const nameOf = (common: string) => sequence(set(sequence(identifier('2.5.4.3'), text(common))))

const extension = (id: string, value: Buffer, critical = false) =>
  sequence(identifier(id), ...(critical ? [truth] : []), octets(value))

const pem = (bytes: Buffer) =>
  `-----BEGIN CERTIFICATE-----\n${bytes.toString('base64').replaceAll(/.{64}(?=.)/g, '$&\n')}\n-----END CERTIFICATE-----\n`
