import { defineConfig } from 'drizzle-kit'
import { defaultDataDir, layout } from './src/engine/base/paths.ts'

// For looking at the records by hand: `npx drizzle-kit studio`. Migrations are written by hand, in
// src/engine/store/migrations: generated ones would not keep what they do not know.
export default defineConfig({
  dialect: 'sqlite',
  schema: './src/engine/store/schema.ts',
  dbCredentials: { url: layout(defaultDataDir()).database },
})
