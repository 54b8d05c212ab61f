import { userInfo } from 'node:os'

/** Who decides here, as the records name him, from whichever window or command line. */
export function accountName(): string {
  try {
    return userInfo().username
  } catch {
    // An account that no list of the system has.
    return 'you'
  }
}
