import { resolve } from 'node:path'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'electron-vite'

const from = (path: string) => resolve(import.meta.dirname, path)

export default defineConfig({
  // One build for every process on Node: the Electron main process, the command line, the browser host and
  // the programs the engine starts. They share chunks, so each stays quick to load.
  main: {
    build: {
      outDir: 'out/main',
      target: 'node24',
      minify: false,
      // Libraries of hundreds of small files take longer to find than to run: bundled, the command line starts
      // in a third of the time. Native ones stay outside.
      externalizeDeps: { exclude: ['commander', 'drizzle-orm', 'jsonc-parser', 'ws', 'zod'] },
      rollupOptions: {
        input: {
          index: from('src/main/index.ts'),
          cli: from('src/cli/index.ts'),
          supervisor: from('src/engine/dispatch/supervise/supervisor.main.ts'),
          caretaker: from('src/engine/dispatch/recover/caretaker.main.ts'),
          relay: from('src/engine/egress/line/relay.main.ts'),
          overhear: from('src/engine/egress/presets/overhear.main.ts'),
        },
      },
    },
  },
  preload: {
    build: {
      outDir: 'out/preload',
      rollupOptions: {
        input: { index: from('src/preload/index.ts') },
        output: { format: 'cjs', entryFileNames: '[name].cjs' },
      },
    },
  },
  renderer: {
    root: from('src/renderer'),
    plugins: [react(), tailwindcss()],
    worker: { format: 'es' },
    build: { outDir: from('out/renderer'), rollupOptions: { input: from('src/renderer/index.html') } },
  },
})
