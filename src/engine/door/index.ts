export { openDoor, type Door } from './door.ts'
export type { Answered, Asked, Listener, Shown, Waiting } from './asking.ts'
export { plainReason } from './wish.ts'
