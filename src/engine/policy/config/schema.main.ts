import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { configFileSchema, configSchemaPath } from '../../../shared/config.ts'

const file = join(import.meta.dirname, '../../../..', configSchemaPath)

/** The published JSON schema of the config files, for editors. It is generated; a test keeps it true. */
export function configJsonSchema(): string {
  const schema = z.toJSONSchema(configFileSchema, { io: 'input' })
  return `${JSON.stringify({ ...schema, $id: 'urn:orangery:schema:config:1', title: 'Orangery configuration' }, null, 2)}\n`
}

export const publishedSchema = (): string => readFileSync(file, 'utf8')

if (process.argv[1] === import.meta.filename) writeFileSync(file, configJsonSchema())
