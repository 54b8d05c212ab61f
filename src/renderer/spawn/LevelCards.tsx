import { RadioGroup } from 'radix-ui'
import type { DoctorReport } from '../../shared/doctor.ts'
import { sandboxLevels, type SandboxLevel } from '../../shared/level.ts'
import { Plain } from '../text/Plain.tsx'
import { LevelIcon } from '../dispatches/Badges.tsx'
import { levelWords } from '../dispatches/words.ts'
import { markedBy, type FieldTrouble } from './Field.tsx'

/** What each level means for the person, in the order one worries about it. */
const consequences: Readonly<Record<SandboxLevel, readonly (readonly [string, string])[]>> = {
  0: [
    ['Reads', 'everything you can'],
    ['Writes', 'its folders to a changeset, all else for real'],
    ['Network', 'everything you can'],
    ['Secrets', 'visible'],
  ],
  1: [
    ['Reads', 'its folders and the system'],
    ['Writes', 'to a changeset'],
    ['Network', 'none, or hosts you name'],
    ['Secrets', 'your home stays hidden'],
  ],
  2: [
    ['Reads', 'its folders and an image'],
    ['Writes', 'to a changeset'],
    ['Network', 'none, or hosts you name'],
    ['Secrets', 'not there'],
  ],
  3: [
    ['Reads', 'its folders and a guest system'],
    ['Writes', 'to a changeset'],
    ['Network', 'none, or hosts you name'],
    ['Secrets', 'not there, own kernel'],
  ],
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

type LevelCardsProps = {
  value: SandboxLevel
  doctor: DoctorReport | undefined
  trouble?: FieldTrouble | undefined
  messageId: string
  onChange(level: SandboxLevel): void
}

export function LevelCards({ value, doctor, trouble, messageId, onChange }: LevelCardsProps) {
  return (
    <RadioGroup.Root
      aria-label="Isolation"
      {...markedBy(trouble, messageId)}
      value={String(value)}
      onValueChange={(next) => onChange(Number(next) as SandboxLevel)}
      className="grid grid-cols-4 gap-2 max-[56rem]:grid-cols-2"
    >
      {sandboxLevels.map((level) => {
        const report = doctor?.levels.find((entry) => entry.level === level)
        const missing = report?.checks.find((check) => !check.ok)
        const driver = level === 0 ? 'Always there' : (report?.driver ?? 'Ready')
        const available = report?.available ?? doctor === undefined
        const availability = available ? driver : capital(missing?.detail ?? 'Not available here')
        return (
          <RadioGroup.Item
            key={level}
            value={String(level)}
            aria-label={levelWords[level].label}
            className={`flex flex-col items-stretch gap-2 rounded-lg bg-raised p-3 text-left shadow-[0_0_0_1px_var(--line-strong)] transition-shadow hover:shadow-[0_0_0_1px_var(--accent-line)] data-[state=checked]:bg-accent-wash data-[state=checked]:shadow-[0_0_0_1.5px_var(--accent)] ${available ? '' : 'text-ink-faint'}`}
          >
            <span className="flex items-center gap-2 font-medium">
              <LevelIcon
                level={level}
                size={15}
                className={level === value && level !== 0 ? 'text-accent-ink' : ''}
              />
              {levelWords[level].label}
            </span>
            <span className="grid grid-cols-[3.25rem_1fr] gap-x-1.5 gap-y-0.5 text-micro">
              {consequences[level].map(([name, what]) => (
                <span key={name} className="contents">
                  <span className="text-ink-faint">{name}</span>
                  <span className={level === 0 ? 'text-bad' : 'text-ink-soft'}>{what}</span>
                </span>
              ))}
            </span>
            <span className="mt-auto flex items-start gap-1.5 pt-0.5 text-micro">
              {doctor === undefined ? (
                <span className="text-ink-faint">Looking…</span>
              ) : (
                <>
                  <span
                    className={`mt-1.25 size-1.5 shrink-0 rounded-full ${available && level !== 0 ? 'bg-good' : 'bg-ink-off'}`}
                  />
                  <span className="min-w-0 [overflow-wrap:anywhere] text-ink-faint">
                    <Plain>{availability}</Plain>
                  </span>
                </>
              )}
            </span>
          </RadioGroup.Item>
        )
      })}
    </RadioGroup.Root>
  )
}
