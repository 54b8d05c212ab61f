import { spawn } from 'node:child_process'
import type { ReadStream } from 'node:tty'

/** Node's raw mode still turns each line feed into two characters, which garbles whatever draws on the screen. */
function passOutputUnchanged(): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'] })
    child.on('error', () => resolve())
    child.on('close', () => resolve())
  })
}

/** Hands every key and every byte of output through as they are, until it is disposed of. */
export async function enterRawMode(stdin: ReadStream): Promise<Disposable> {
  if (!stdin.isTTY) return { [Symbol.dispose]() {} }
  const leave = () => {
    process.off('exit', leave)
    if (!stdin.destroyed) stdin.setRawMode(false)
  }
  process.on('exit', leave)
  stdin.setRawMode(true)
  await passOutputUnchanged()
  return { [Symbol.dispose]: leave }
}
