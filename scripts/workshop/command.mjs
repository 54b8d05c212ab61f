import { spawn, spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'

/** Runs a program to its end; its output goes to a file or nowhere and comes back as text when it is short. */
export function runQuietly(file, args, { log, ...options } = {}) {
  return new Promise((resolve) => {
    const descriptor = log === undefined ? undefined : openSync(log, 'a')
    const output = descriptor ?? 'pipe'
    const child = spawn(file, args, { ...options, stdio: ['ignore', output, output] })
    const chunks = []
    child.stdout?.on('data', (chunk) => chunks.push(chunk))
    child.stderr?.on('data', (chunk) => chunks.push(chunk))
    const done = (code, error) => {
      if (descriptor !== undefined) closeSync(descriptor)
      const text = Buffer.concat(chunks).toString()
      resolve({ code, output: error === undefined ? text : `${text}${error.message}\n` })
    }
    child.on('error', (error) => done(127, error))
    child.on('close', (code, signal) => done(code ?? (signal === null ? 1 : 128)))
  })
}

export function isOnPath(name) {
  return spawnSync('sh', ['-c', 'command -v "$1"', 'sh', name], { stdio: 'ignore' }).status === 0
}
