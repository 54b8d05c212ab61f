// Writes one JSON line per test to $ORANGERY_TEST_RECORDS, so that the count survives a crash of the runner.
import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { root } from './places.mjs'

const file = process.env.ORANGERY_TEST_RECORDS
const record = (entry) => appendFileSync(file, `${JSON.stringify(entry)}\n`)
// With what differed: a failure that comes once in a hundred runs is understood from its record or not at all.
const textOf = (error) =>
  stripVTControlCharacters([error.stack ?? error.message ?? String(error), error.diff ?? ''].join('\n'))
const text = (errors) => (errors ?? []).map(textOf).join('\n')
const outcomes = { passed: 'passed', failed: 'failed', skipped: 'skipped', pending: 'failed' }

export default class RecordReporter {
  onTestModuleEnd(module) {
    const where = relative(root, module.moduleId)
    const fail = (name, errors) => {
      if (errors.length > 0) record({ where, name, outcome: 'failed', message: text(errors) })
    }
    fail('(loading the file)', module.errors())
    for (const suite of module.children.allSuites()) fail(`${suite.fullName} (its set-up)`, suite.errors())
    for (const test of module.children.allTests()) {
      const result = test.result()
      record({
        where,
        name: test.fullName,
        outcome: outcomes[result.state] ?? 'failed',
        reason: result.note,
        message: result.state === 'pending' ? 'did not finish' : text(result.errors),
        ms: test.diagnostic()?.duration,
      })
    }
  }

  onTestRunEnd(_modules, unhandledErrors) {
    for (const error of unhandledErrors) {
      record({ where: 'vitest', name: '(outside any test)', outcome: 'failed', message: text([error]) })
    }
  }
}
