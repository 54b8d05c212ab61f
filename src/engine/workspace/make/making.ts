import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { writeFileAtomically } from '../../base/files.ts'

/** Where a branch is being made: a process that is killed has no other way to tell it once the tree is gone. */
const makingSchema = z.object({ common_dir: z.string(), branch: z.string() })
type Making = z.infer<typeof makingSchema>

const noteIn = (records: string): string => join(records, 'making.json')

/** Written before git is asked, beside the place of the record. */
export const noteMaking = (records: string, making: Making): Promise<void> =>
  writeFileAtomically(noteIn(records), `${JSON.stringify(making)}\n`)

/** The record says it all now. */
export const forgetMaking = (records: string): Promise<void> => rm(noteIn(records), { force: true })

export async function readMaking(records: string): Promise<Making | null> {
  const text = await readFile(noteIn(records), 'utf8').catch(() => '')
  try {
    return makingSchema.parse(JSON.parse(text))
  } catch {
    return null
  }
}
