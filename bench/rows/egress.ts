import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { NotHere, type Contender, type Row } from '../row.ts'
import { makeCell, type Cell } from '../../test/egress/harness.ts'

const megabytes = 512

/** Sends many bytes to whoever says so, takes many from whoever says that, and answers short words with a short one. */
const server = `
const chunk = Buffer.alloc(1 << 20)
const server = require('node:net').createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => {})
  socket.once('data', (word) => {
    if (word[1] === 0) return void socket.end('.')
    if (word[1] === 2) {
      let taken = word.length
      socket.on('data', (bytes) => {
        taken += bytes.length
        if (taken >= ${megabytes} * 2 ** 20) socket.end('.')
      })
      return
    }
    let left = ${megabytes}
    const send = () => {
      while (left > 0) {
        left--
        if (!socket.write(chunk)) return void socket.once('drain', send)
      }
      socket.end()
    }
    send()
  })
}).listen(0, '127.0.0.1', () => console.log(server.address().port))`

/** Reads one long answer and says how many megabytes a second came. */
const download = `
const [host, port] = process.argv.slice(1)
let bytes = 0
const began = process.hrtime.bigint()
const callback = (length) => { bytes += length; return true }
const socket = require('node:net').connect({ host, port, onread: { buffer: Buffer.alloc(1 << 20), callback } })
socket.write(Buffer.from([0, 1]))
socket.on('close', () => {
  if (bytes !== ${megabytes} * 2 ** 20) process.exit(1)
  console.log(bytes / 2 ** 20 / (Number(process.hrtime.bigint() - began) / 1e9))
})`

/** Sends one long request and says how many megabytes a second were taken. */
const upload = `
const [host, port] = process.argv.slice(1)
const chunk = Buffer.alloc(1 << 20)
chunk[1] = 2
let left = ${megabytes}
const began = process.hrtime.bigint()
const socket = require('node:net').connect({ host, port })
const send = () => {
  while (left > 0) {
    left--
    if (!socket.write(chunk)) return void socket.once('drain', send)
  }
}
send()
socket.once('data', () => {
  console.log(${megabytes} / (Number(process.hrtime.bigint() - began) / 1e9))
  process.exit()
})`

/** Opens connections one after the other and says the median milliseconds until each was answered. */
const connects = `
const [host, port, count, lanes] = process.argv.slice(1)
const once = () => new Promise((done, fail) => {
  const began = process.hrtime.bigint()
  const socket = require('node:net').connect({ host, port, noDelay: true })
  socket.write(Buffer.from([0, 0]))
  socket.on('error', fail)
  socket.once('data', () => { socket.destroy(); done(Number(process.hrtime.bigint() - began) / 1e6) })
})
const times = []
const lane = async () => { while (times.length < count) times.push(await once()) }
const began = process.hrtime.bigint()
Promise.all(Array.from({ length: lanes }, lane)).then(() => {
  const seconds = Number(process.hrtime.bigint() - began) / 1e9
  times.sort((a, b) => a - b)
  console.log(lanes > 1 ? times.length / seconds : times[times.length >> 1])
})`

type Ground = { readonly cell: Cell; readonly port: string }

async function prepareGround(scope: AsyncDisposableStack): Promise<Ground> {
  const child = spawn(process.execPath, ['-e', server], { stdio: ['ignore', 'pipe', 'inherit'] })
  scope.defer(() => void child.kill())
  const port = String((await once(child.stdout, 'data'))[0]).trim()
  const cell = await makeCell({ pins: { 'peer.example:7000': `127.0.0.1:${port}` } }).catch(
    (error: unknown) => {
      throw new NotHere(`no network namespace can be made here: ${String(error)}`)
    },
  )
  scope.use(cell)
  return { cell, port }
}

const inside = ({ cell }: Ground, name: string, program: string, ...args: string[]): Contender => ({
  name,
  sample: async () => {
    const command = [process.execPath, '-e', program, 'peer.example', '7000', ...args]
    const ran = await cell.run(command, { proxied: false })
    if (ran.code !== 0) throw new Error(`${name}: ${ran.stderr}`)
    return Number(ran.stdout)
  },
})

const direct = ({ port }: Ground, name: string, program: string, ...args: string[]): Contender => ({
  name,
  sample: async () => {
    const command = ['-e', program, '127.0.0.1', port, ...args]
    const child = spawn(process.execPath, command, { stdio: ['ignore', 'pipe', 'inherit'] })
    let text = ''
    child.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await once(child, 'close')
    return Number(text)
  },
})

const stream = (name: string, program: string): Row => ({
  name,
  unit: 'MiB/s',
  samples: 8,
  async prepare(scope) {
    const ground = await prepareGround(scope)
    return {
      subject: inside(ground, 'orangery', program),
      peers: [direct(ground, 'direct loopback', program)],
      limits: [{ against: 'direct loopback', atLeast: 0.2 }],
    }
  },
})
const throughput = stream('egress: one stream through relay and broker', download)
const sending = stream('egress: one stream the other way, an upload', upload)

const rate: Row = {
  name: 'egress: new connections a second (500 are asked for)',
  unit: '1/s',
  samples: 5,
  async prepare(scope) {
    const ground = await prepareGround(scope)
    return {
      subject: inside(ground, 'orangery', connects, '2000', '16'),
      peers: [
        direct(ground, 'direct loopback', connects, '2000', '16'),
        { name: '500 a second', sample: async () => 500 },
      ],
      limits: [{ against: '500 a second', atLeast: 1 }],
    }
  },
}

const latency: Row = {
  name: 'egress: one connection and its answer, median (5 ms more than direct are allowed)',
  samples: 5,
  async prepare(scope) {
    const ground = await prepareGround(scope)
    const straight = direct(ground, 'direct loopback', connects, '300', '1')
    return {
      subject: inside(ground, 'orangery', connects, '300', '1'),
      peers: [
        straight,
        { name: 'direct loopback and 5 ms', sample: async () => Number(await straight.sample()) + 5 },
      ],
      limits: [{ against: 'direct loopback and 5 ms', atMost: 1 }],
    }
  },
}

export const rows = [throughput, sending, rate, latency]
