import { z } from 'zod'
import { configFileSchema } from './config.ts'

/** The JSON schema of the config files, for editors; the published file is written from it. */
export function configJsonSchema(): string {
  const schema = z.toJSONSchema(configFileSchema, { io: 'input' })
  return `${JSON.stringify({ ...schema, $id: 'urn:orangery:schema:config:1', title: 'Orangery configuration' }, null, 2)}\n`
}
