import { useAct } from '../client/queries.ts'
import { landedToast, showToast } from '../design/toasts.ts'
import { countFiles } from './Endings.tsx'
import { stoppedAt, type Stopped } from './SettleDialog.tsx'

/** Takes back what has landed. `onStopped`: a crash had cut off what was before, and a person has to say how it goes on. */
export function useUndo(onStopped: (stopped: Stopped) => void) {
  return useAct('changeset.undo', {
    onFailed: (error) => {
      const stopped = stoppedAt(error)
      if (stopped === null) return false
      onStopped(stopped)
      return true
    },
    onDone: ({ id, applied, notes = [], waits_for: waits }) => {
      if (waits !== undefined)
        return showToast({
          tone: 'plain',
          title: 'It waits for its turn',
          detail: 'It is undone when nobody works on the same folder any more.',
        })
      showToast({
        tone: 'good',
        about: landedToast(id),
        title: `Undone. ${countFiles(applied.length)} ${applied.length === 1 ? 'is' : 'are'} as before.`,
        ...(notes.length === 0 ? {} : { detail: notes.join(' ') }),
      })
    },
  })
}
