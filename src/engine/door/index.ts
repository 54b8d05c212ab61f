export { openDoor, type Asked, type Answered, type Door } from './door.ts'
