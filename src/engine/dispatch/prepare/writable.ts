import type { CheckResult } from '../../../shared/doctor.ts'
import type { Contract } from '../../base/contract.ts'

/** Where single files of a read-only workspace cannot be left writable, nobody is to wonder why they are not. */
export function writableNotes({ boundary, writableFiles, level, strategy }: Contract): readonly string[] {
  if (boundary !== 'readonly' || writableFiles.length === 0) return []
  const why = level === 0 ? 'at level 0' : strategy === 'none' ? 'with the real files (changeset none)' : null
  if (why === null) return []
  return [
    `${writableFiles.join(', ')} cannot be written: ${why} a read-only boundary is read-only throughout`,
  ]
}

/** A list that nothing would hold to must not look like one. */
export function checkPlaces({ writableAt, level, strategy }: Contract): readonly CheckResult[] {
  const why = level === 0 ? 'at level 0' : strategy === 'none' ? 'with the real files (changeset none)' : null
  if (writableAt === undefined || why === null) return []
  return [
    {
      name: 'writable places',
      ok: false,
      detail: `sandboxLevels names what is writable at ${Object.keys(writableAt).join(', ')}: ${why} no part of a root can be held apart`,
      fix: 'Run at level 1 with an overlay, a worktree or a clone, or take the list out of the config.',
    },
  ]
}
