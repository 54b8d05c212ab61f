import { FitAddon } from '@xterm/addon-fit'
import { Terminal as Xterm, type ITheme } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { useEffect, useRef } from 'react'
import { useClient, useConnectionState } from '../client/context.tsx'
import { useShownTheme } from '../design/theme.ts'
import { followOutput } from './follow.ts'

/** Tokens as the terminal needs them: resolved to one colour each. */
function themeFrom(element: HTMLElement): ITheme {
  const probe = document.createElement('span')
  element.append(probe)
  const token = (name: string) => {
    probe.style.color = `var(--${name})`
    return getComputedStyle(probe).color
  }
  const theme: ITheme = {
    background: token('pane'),
    foreground: token('ink'),
    cursor: token('accent'),
    cursorAccent: token('pane'),
    selectionBackground: token('term-selection'),
    ...Object.fromEntries(
      ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white'].flatMap((name) => [
        [name, token(`term-${name}`)],
        [`bright${name[0]?.toUpperCase()}${name.slice(1)}`, token(`term-bright-${name}`)],
      ]),
    ),
  }
  probe.remove()
  return theme
}

type TerminalProps = { id: string; interactive: boolean; onEmpty(empty: boolean): void }

/** What the agent prints, as a terminal shows it, and nothing beyond: it cannot write the clipboard or make links. */
export function Terminal({ id, interactive, onEmpty }: TerminalProps) {
  const place = useRef<HTMLDivElement>(null)
  const terminal = useRef<Xterm | null>(null)
  const client = useClient()
  const connected = useConnectionState().status === 'open'
  const theme = useShownTheme()
  const typing = useRef(interactive)
  typing.current = interactive

  useEffect(() => {
    const element = place.current
    if (element === null || !connected) return undefined
    const xterm = new Xterm({
      fontFamily: "'Geist Mono Variable', monospace",
      fontSize: 12.5,
      lineHeight: 1.35,
      scrollback: 20_000,
      convertEol: false,
      cursorBlink: false,
      cursorInactiveStyle: 'none',
      disableStdin: !typing.current,
      theme: themeFrom(element),
      allowProposedApi: false,
      linkHandler: null,
      windowOptions: {},
    })
    // OSC 52 reads and writes the clipboard, OSC 8 hides an address behind a text. Neither is output. (escape: osc-52, osc-8)
    for (const code of [8, 52]) xterm.parser.registerOscHandler(code, () => true)
    const fit = new FitAddon()
    xterm.loadAddon(fit)
    terminal.current = xterm
    const abort = new AbortController()
    let empty = true

    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0 && element.clientHeight > 0) fit.fit()
    })
    xterm.onResize(({ cols, rows }) => {
      if (typing.current) client.call('dispatch.resize', { id, columns: cols, rows }).catch(() => {})
    })
    xterm.onData((data) => {
      if (typing.current) client.call('dispatch.input', { id, data }).catch(() => {})
    })

    void (async () => {
      // Measured before the typeface is there, the grid would be of another one.
      await document.fonts.load("12px 'Geist Mono Variable'").catch(() => {})
      if (abort.signal.aborted) return
      xterm.open(element)
      observer.observe(element)
      fit.fit()
      onEmpty(true)
      try {
        for await (const text of followOutput(client, id, abort.signal)) {
          if (empty) onEmpty((empty = false))
          await new Promise<void>((resolve) => xterm.write(text, resolve))
        }
      } catch {
        // A lost connection is shown by the window; the stream is opened again with the next one.
      }
    })()
    return () => {
      abort.abort()
      observer.disconnect()
      xterm.dispose()
      terminal.current = null
    }
    // oxlint-disable-next-line react/exhaustive-deps -- a new terminal only for another dispatch or connection
  }, [id, client, connected])

  useEffect(() => {
    const element = place.current
    if (terminal.current === null || element === null) return
    terminal.current.options.disableStdin = !interactive
    terminal.current.options.theme = themeFrom(element)
  }, [theme, interactive, connected])

  return <div ref={place} data-testid="terminal" className="selectable h-full overflow-hidden" />
}
