import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** So many may wait behind the one that is answered before no more is read. */
const mostWaiting = 8
/** One reading may bring more; so many no program sends before it has an answer. */
const mostAtOnce = 256

type Queue = {
  waiting: number
  last: Promise<unknown>
  ended: boolean
  /** Somebody else reads from the connection. */
  handedOn: boolean
}

export type Turns = {
  /** Waits until it is a request's turn; false: nobody answers it, since the connection is over. */
  next(client: Socket, response: ServerResponse): Promise<boolean>
  /** The same of what makes something else of the connection: no request comes after it. */
  last(client: Socket): Promise<boolean>
  /** What was said is the last on this connection. */
  end(client: Socket): void
}

/**
 * One answer after the other, since a long one goes past the queue that Node keeps: a program that does not wait for an
 * answer before it asks again would find one inside the other. Requests that wait are kept in memory, so that only a
 * handful is read ahead. (escape: request-flood)
 */
export function createTurns(deny: (client: Socket, why: string) => void): Turns {
  const queues = new WeakMap<Socket, Queue>()
  const queueOf = (client: Socket): Queue => {
    const known = queues.get(client) ?? { waiting: 0, last: Promise.resolve(), ended: false, handedOn: false }
    queues.set(client, known)
    return known
  }
  // Node reads on by itself behind every whole request and every answer: we come after it.
  const holdSoon = (client: Socket, queue: Queue) => {
    const hold = () => {
      if (queue.waiting > mostWaiting && !queue.handedOn) client.pause()
    }
    process.nextTick(hold)
    setImmediate(hold)
  }
  const isOpen = (client: Socket, queue: Queue) => !queue.ended && !client.destroyed
  return {
    async next(client, response) {
      const queue = queueOf(client)
      if (!isOpen(client, queue)) return false
      if (++queue.waiting > mostAtOnce) {
        deny(client, `more than ${mostAtOnce} requests at one time on one connection`)
        client.destroy()
        return false
      }
      const before = queue.last
      queue.last = new Promise<void>((done) => response.once('close', done))
      if (queue.waiting > mostWaiting) holdSoon(client, queue)
      response.once('close', () => {
        if (--queue.waiting > mostWaiting) holdSoon(client, queue)
        else if (queue.waiting === mostWaiting && !queue.handedOn) client.resume()
      })
      await before
      return isOpen(client, queue)
    },
    async last(client) {
      const queue = queueOf(client)
      queue.handedOn = true
      await queue.last
      return isOpen(client, queue)
    },
    end(client) {
      queueOf(client).ended = true
    },
  }
}
