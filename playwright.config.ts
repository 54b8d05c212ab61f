import { defineConfig } from '@playwright/test'

/**
 * The same specs twice: in Debian's Chromium against `orangery serve`, and through Electron where there is a binary.
 * Where there is none, those say so and are counted as skipped.
 */
export default defineConfig({
  testDir: 'e2e',
  globalSetup: './e2e/build.ts',
  outputDir: 'test-results',
  timeout: 150_000,
  expect: { timeout: 30_000 },
  fullyParallel: false,
  workers: 1,
  reporter: 'list',
  use: {
    viewport: { width: 1280, height: 800 },
    colorScheme: 'light',
    trace: 'off',
    screenshot: 'only-on-failure',
    launchOptions: {
      executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
      args: [
        '--no-sandbox',
        '--disable-dev-shm-usage',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--no-first-run',
      ],
    },
  },
  projects: [
    { name: 'browser', metadata: { host: 'browser' } },
    {
      name: 'desktop',
      metadata: { host: 'desktop' },
      testMatch: ['way.spec.ts', 'hostile.spec.ts', 'boundary.spec.ts'],
    },
  ],
})
