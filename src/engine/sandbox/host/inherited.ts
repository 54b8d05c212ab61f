import { existsSync, readdirSync, readFileSync } from 'node:fs'

const closeOnExec = 0o2000000

function read(number: string): string {
  try {
    return readFileSync(`/proc/self/fdinfo/${number}`, 'utf8')
  } catch {
    // Gone meanwhile.
    return ''
  }
}

function inheritsDescriptors(): boolean {
  if (!existsSync('/proc/self/fdinfo')) return false
  return readdirSync('/proc/self/fdinfo').some((number) => {
    const flags = /^flags:\s*(\d+)/m.exec(read(number))?.[1]
    return Number(number) > 2 && flags !== undefined && (Number.parseInt(flags, 8) & closeOnExec) === 0
  })
}

/**
 * Whether we were ourselves started with descriptors that every process we start would inherit. They do not change, and
 * looking takes as long as starting a shell. What comes later the gate finds itself.
 */
export const hasInherited = inheritsDescriptors()
