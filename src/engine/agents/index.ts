export { loadCards, findCard } from './cards.ts'
export { commandLine } from './commandLine.ts'
