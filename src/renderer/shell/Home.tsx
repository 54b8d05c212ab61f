import { Eye, PackageOpen, Plus, ShieldCheck } from 'lucide-react'
import { Button } from '../design/Button.tsx'
import { Keys } from '../design/Keys.tsx'
import { go } from './route.ts'
import { Glasshouse } from './Glasshouse.tsx'

const steps = [
  {
    icon: ShieldCheck,
    title: 'It runs inside',
    text: 'An agent or command sees your folder at its own path, from inside a sandbox.',
  },
  {
    icon: Eye,
    title: 'You look in',
    text: 'Output, network and every change are in plain view while it works.',
  },
  {
    icon: PackageOpen,
    title: 'You let it out',
    text: 'Nothing reaches your files until you have approved it, hunk by hunk if you like.',
  },
] as const

type HomeProps = {
  first: boolean
  /** Dispatches that wait for a person, the next one first. */
  waiting: readonly string[]
  onSpawn(): void
}

function heading(first: boolean, waiting: number): string {
  if (first) return 'Run an agent where it can do no harm'
  if (waiting === 0) return 'Nothing waits for you'
  return waiting === 1 ? 'One dispatch waits for you' : `${waiting} dispatches wait for you`
}

export function Home({ first, waiting, onSpawn }: HomeProps) {
  const next = waiting[0]
  return (
    <div className="grid h-full place-items-center overflow-y-auto p-8">
      <div className="w-full max-w-2xl text-center">
        <Glasshouse className="mx-auto mb-6 h-36 max-[40rem]:h-24" />
        <h1 className="text-display font-semibold tracking-tight">{heading(first, waiting.length)}</h1>
        <p className="mx-auto mt-2 max-w-md text-ink-soft">
          {first
            ? 'Dispatch a coding agent, or any command, into a sandbox of its own. What grows inside does not get out by itself.'
            : next === undefined
              ? 'Pick a dispatch on the left, or start a new one.'
              : waiting.length === 1
                ? 'What it made or asks for stays inside until you have looked at it.'
                : 'What they made or ask for stays inside until you have looked at it.'}
        </p>
        <div className="mt-6 flex justify-center gap-2">
          {next !== undefined && (
            <Button
              look="primary"
              size="large"
              icon={<Eye size={16} />}
              onClick={() => go({ page: 'dispatch', id: next, tab: null })}
            >
              {waiting.length === 1 ? 'Look at it' : 'Look at the next'}
            </Button>
          )}
          <Button
            look={next === undefined ? 'primary' : 'outline'}
            size="large"
            icon={<Plus size={16} />}
            onClick={onSpawn}
          >
            New dispatch
            <Keys>n</Keys>
          </Button>
        </div>
        {first && (
          <ol className="mt-12 grid grid-cols-3 gap-6 text-left max-[52rem]:grid-cols-1">
            {steps.map(({ icon: Icon, title, text }) => (
              <li key={title}>
                <Icon size={18} strokeWidth={1.75} className="mb-2 text-accent-ink" />
                <h2 className="font-medium">{title}</h2>
                <p className="mt-0.5 text-small text-ink-soft">{text}</p>
              </li>
            ))}
          </ol>
        )}
      </div>
    </div>
  )
}
