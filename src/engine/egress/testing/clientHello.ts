import { Duplex } from 'node:stream'
import { connect } from 'node:tls'

/** What a real client says first. */
export function helloFor(servername: string): Promise<Buffer> {
  return new Promise((resolve) => {
    const wire = new Duplex({
      read() {},
      write(bytes: Buffer, _encoding, done) {
        resolve(bytes)
        done()
        wire.destroy()
      },
    })
    connect({ socket: wire, servername }).on('error', () => {})
  })
}
