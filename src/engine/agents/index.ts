export { chooseCard, findCard, loadCards } from './cards.ts'
export { protocolReader, ProtocolReader } from './protocol.ts'
export { commandLine } from './commandLine.ts'
export { AcpConversation } from './acp/conversation.ts'
