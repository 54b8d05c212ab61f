import { TriangleAlert } from 'lucide-react'
import { useMemo, useState } from 'react'
import type { ConfigNotice, Provenance } from '../../shared/config.ts'
import { useAnswer } from '../client/queries.ts'
import { Badge, type Tone } from '../design/Badge.tsx'
import { Disclosure } from '../design/Disclosure.tsx'
import { Reading, Rows, Section } from '../design/Section.tsx'
import { Trouble } from '../design/Trouble.tsx'
import { useDispatches } from '../dispatches/useDispatches.ts'
import { isWorktreePath } from '../dispatches/words.ts'
import { TrustNotice } from '../spawn/TrustNotice.tsx'
import { PathText, Plain } from '../text/Plain.tsx'
import { showAll } from '../text/visible.ts'
import { placeOf, settingsOf, type Setting } from './settings.ts'

const sourceWords: Readonly<Record<Provenance['source'], { label: string; tone: Tone }>> = {
  default: { label: 'Default', tone: 'neutral' },
  user: { label: 'Yours', tone: 'accent' },
  project: { label: 'Project', tone: 'live' },
}

function SettingRow({ setting }: { setting: Setting }) {
  const files = setting.origins.filter((origin) => origin.file !== null)
  const sources = [...new Set(setting.origins.map((origin) => origin.source))]
  return (
    <li className="grid grid-cols-[minmax(0,18rem)_1fr_auto] gap-x-4 gap-y-0.5 px-4 py-2 tight:grid-cols-[1fr_auto]">
      <span className="selectable min-w-0 font-mono text-small [overflow-wrap:anywhere] text-ink-soft">
        <Plain>{setting.key}</Plain>
      </span>
      <span className="min-w-0 tight:col-span-full tight:row-start-2">
        <span className="selectable block font-mono text-small [overflow-wrap:anywhere] whitespace-pre-wrap">
          <Plain>{setting.value}</Plain>
        </span>
        {files.map((origin) => (
          <PathText
            key={`${origin.file}${origin.line}`}
            path={`${origin.file}:${origin.line ?? ''}`}
            className="font-mono text-micro text-ink-faint"
          />
        ))}
      </span>
      <span className="flex flex-wrap justify-end gap-1">
        {sources.map((source) => (
          <Badge key={source} tone={sourceWords[source].tone}>
            {sourceWords[source].label}
          </Badge>
        ))}
      </span>
    </li>
  )
}

function Notice({ notice }: { notice: ConfigNotice }) {
  return (
    <li className="flex gap-2.5 px-4 py-2">
      <TriangleAlert size={14} className="mt-0.5 shrink-0 text-warn" />
      <span className="selectable min-w-0 [overflow-wrap:anywhere]">
        <span className="font-mono text-small">
          <Plain>{notice.key}</Plain>
        </span>{' '}
        <span className="text-ink-soft">
          <Plain>{notice.message}</Plain>
        </span>
        <PathText path={placeOf(notice)} className="font-mono text-micro text-ink-faint" />
      </span>
    </li>
  )
}

/** What holds for a folder, and for every value where it came from. */
export function Settings() {
  const [folder, setFolder] = useState('')
  const list = useDispatches()
  const folders = useMemo(
    () =>
      [...new Set((list.data ?? []).flatMap((row) => row.roots))]
        .filter((root) => !isWorktreePath(root))
        .toSorted(),
    [list.data],
  )
  const config = useAnswer(
    'config.show',
    { roots: folder === '' ? [] : [folder] },
    { fresh: true, keep: true },
  )
  const settings = useMemo(() => (config.data === undefined ? [] : settingsOf(config.data)), [config.data])
  const set = settings.filter((setting) => setting.isSet)
  const usual = settings.filter((setting) => !setting.isSet)
  const notices = [...(config.data?.heldBack ?? []), ...(config.data?.warnings ?? [])]
  return (
    <>
      <label className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <span className="font-medium">What holds for</span>
        <select
          aria-label="Folder"
          value={folder}
          onChange={(event) => setFolder(event.target.value)}
          className="h-8 max-w-full min-w-0 rounded-md bg-raised px-2 font-mono text-small text-ink shadow-[0_0_0_1px_var(--line-strong)]"
        >
          <option value="">any folder</option>
          {folders.map((root) => (
            <option key={root} value={root}>
              {showAll(root)}
            </option>
          ))}
        </select>
      </label>
      {folder !== '' && config.error === null && <TrustNotice key={folder} root={folder} />}
      {config.error !== null && <Trouble error={config.error} onRetry={() => void config.refetch()} />}
      {config.data === undefined && config.error === null && <Reading what="Reading the config files…" />}
      {notices.length > 0 && (
        <Section title="Without effect" hint="Written down, and not holding.">
          <Rows empty="">
            {notices.map((notice) => (
              <Notice key={placeOf(notice) + notice.key} notice={notice} />
            ))}
          </Rows>
        </Section>
      )}
      {config.data !== undefined && (
        <Section title="Set" hint="By you or by the project. A project that is not trusted can only narrow.">
          <Rows empty="Nothing: every value is at its default.">
            {set.map((setting) => (
              <SettingRow key={setting.key} setting={setting} />
            ))}
          </Rows>
          <Disclosure title={`${usual.length} at their defaults`}>
            <Rows empty="">
              {usual.map((setting) => (
                <SettingRow key={setting.key} setting={setting} />
              ))}
            </Rows>
          </Disclosure>
        </Section>
      )}
    </>
  )
}
