import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { configSchemaPath } from '../../../shared/config.ts'
import { configJsonSchema } from '../../../shared/configJsonSchema.ts'

/** Writes the published schema; a test keeps it true. */
const file = join(import.meta.dirname, '../../../..', configSchemaPath)

export const publishedSchema = (): string => readFileSync(file, 'utf8')

if (process.argv[1] === import.meta.filename) writeFileSync(file, configJsonSchema())
