export { connectClient } from './client.ts'
export { serveChannel } from './host.ts'
export { channelPair } from './pair.ts'
export type { Channel } from './messages.ts'
