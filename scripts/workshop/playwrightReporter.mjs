// Writes one JSON line per test to $ORANGERY_TEST_RECORDS, like the reporter for vitest beside it.
import { appendFileSync } from 'node:fs'
import { relative } from 'node:path'
import { root } from './places.mjs'

const file = process.env.ORANGERY_TEST_RECORDS
const record = (entry) => appendFileSync(file, `${JSON.stringify(entry)}\n`)
const text = (errors) =>
  (errors ?? []).map((error) => error.stack ?? error.message ?? String(error)).join('\n')
const outcomes = { expected: 'passed', flaky: 'passed', unexpected: 'failed', skipped: 'skipped' }

export default class RecordReporter {
  onBegin(_config, suite) {
    this.suite = suite
  }

  onError(error) {
    record({ where: 'playwright', name: '(outside any test)', outcome: 'failed', message: text([error]) })
  }

  onEnd() {
    for (const test of this.suite?.allTests() ?? []) {
      const [, project, , ...titles] = test.titlePath()
      record({
        where: relative(root, test.location.file),
        name: `${titles.join(' > ')}${project ? ` [${project}]` : ''}`,
        outcome: outcomes[test.outcome()],
        reason: test.annotations.find(({ type }) => type === 'skip' || type === 'fixme')?.description,
        message: text(test.results.flatMap((result) => result.errors)),
        ms: test.results.reduce((sum, result) => sum + result.duration, 0),
      })
    }
  }

  printsToStdio() {
    return false
  }
}
