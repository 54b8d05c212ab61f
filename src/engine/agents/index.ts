export { loadCards, findCard } from './cards.ts'
export { protocolReader } from './protocol.ts'
export { commandLine } from './commandLine.ts'
