import { closeSync } from 'node:fs'
import { inheritedDescriptors } from '../../base/inherited.ts'

/**
 * A supervisor outlives its host and whoever started that: a pipe of theirs it kept would never end, and each
 * sandbox would have to close it anew. On Electron's Node some of these are its own, and stay.
 */
function closeInherited(): void {
  if ('electron' in process.versions) return
  try {
    for (const number of inheritedDescriptors()) closeSync(number)
  } catch {
    // Gone meanwhile: the gate of a sandbox closes what is left.
  }
}

// As the first import of a program: modules that look at what was inherited come after it.
closeInherited()
