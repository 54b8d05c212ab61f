import { spawn } from 'node:child_process'
import { expect, test } from 'vitest'
import { Terminal } from './terminal.ts'

const inside = (terminal: Terminal, script: string) => {
  const stdio = [terminal.slave, terminal.slave, terminal.slave]
  const child = spawn('setsid', ['--ctty', '--wait', 'bash', '-c', script], { stdio, detached: true })
  terminal.handOver()
  return child
}

test('a program on our terminal has it as its controlling terminal, with our size, and can be typed to', async () => {
  using terminal = new Terminal({ columns: 77, rows: 20 })
  inside(terminal, 'stty size </dev/tty; echo ready; read line; echo "got $line"; stty size')
  let seen = ''
  for await (const chunk of terminal.output()) {
    seen += chunk.toString()
    if (seen.endsWith('ready\r\n')) {
      terminal.resize({ columns: 99, rows: 30 })
      terminal.write('hello\r')
    }
  }
  expect(seen).toContain('20 77')
  expect(seen).toContain('got hello')
  expect(seen).toContain('30 99')
})

test('Ctrl-C typed on the terminal interrupts what runs in its foreground', async () => {
  using terminal = new Terminal({ columns: 80, rows: 24 })
  // Between commands bash only remembers a signal, and one that came just before a `read` waits for its end.
  const waiting = 'while :; do sleep 0.1; done'
  const child = inside(terminal, `trap "echo interrupted; exit 3" INT; echo ready; ${waiting}`)
  let seen = ''
  for await (const chunk of terminal.output()) {
    seen += chunk.toString()
    if (seen.endsWith('ready\r\n')) terminal.write('\x03')
  }
  expect(seen).toContain('interrupted')
  expect(child.exitCode ?? (await new Promise((resolve) => child.on('exit', resolve)))).toBe(3)
})
