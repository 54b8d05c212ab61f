import { createHash } from 'node:crypto'

const magic = 0xfeed_feed
const trusted = 2
/** What tools assume where nobody says one; it keeps nothing secret, since nothing in here is. */
const usualPassword = 'changeit'

/**
 * Certificates as PEM in the one format that every Java reads as a trust store (JKS). The sum at its end guards
 * against damage only; the file is shown read-only.
 */
export function javaStore(certificates: readonly string[]): Buffer {
  const entries = certificates
    .flatMap(certificatesOf)
    .flatMap((certificate, index) => [
      number(trusted),
      text(`orangery-${index}`),
      Buffer.alloc(8),
      text('X.509'),
      number(certificate.length),
      certificate,
    ])
  const count = entries.length / 6
  const content = Buffer.concat([number(magic), number(2), number(count), ...entries])
  const key = Buffer.from(usualPassword, 'utf16le').swap16()
  const sum = createHash('sha1').update(key).update('Mighty Aphrodite').update(content).digest()
  return Buffer.concat([content, sum])
}

const certificatesOf = (pem: string): Buffer[] =>
  [...pem.matchAll(/-----BEGIN CERTIFICATE-----([\s\S]*?)-----END CERTIFICATE-----/g)].map(
    ([, base64 = '']) => Buffer.from(base64, 'base64'),
  )

function number(value: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value)
  const length = Buffer.alloc(2)
  length.writeUInt16BE(bytes.length)
  return Buffer.concat([length, bytes])
}
