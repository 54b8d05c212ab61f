import type { EffectiveConfig } from '../../../shared/config.ts'

/**
 * What whoever starts something should hear about the files that hold for it: keys that nobody knows, and a repository's
 * file that asks for more than it gets.
 */
export function configNotes({ warnings, heldBack, projects }: EffectiveConfig): readonly string[] {
  const waiting = projects.filter(
    ({ file, trust }) =>
      (trust === 'untrusted' || trust === 'changed') && heldBack.some((notice) => notice.file === file),
  )
  return [
    ...warnings.map(({ file, line, key, message }) => `${file}:${line}: ${key}: ${message}`),
    ...waiting.map(({ root, file, trust }) => {
      const why = trust === 'changed' ? 'has changed since you trusted it' : 'is not trusted'
      return `${file} ${why} and can only narrow: see \`orangery config trust ${root}\``
    }),
  ]
}
