// `npm test`: set-up, then every check, each with a line of its own. The last line counts all that ran.
//   --quick         leaves out the stages that take long
//   --only a,b      runs only the named stages
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cache } from './workshop/places.mjs'
import { main, SetupError } from './workshop/say.mjs'
import { ensurePackages } from './workshop/packages.mjs'
import { runStage, stages } from './workshop/stages.mjs'
import { ensureSystemPackages } from './workshop/system.mjs'

function chosenStages(args) {
  const at = args.indexOf('--only')
  const others = at === -1 ? args : args.toSpliced(at, 2)
  const odd = others.find((arg) => arg !== '--quick')
  if (odd !== undefined)
    throw new SetupError(`test: unknown option "${odd}"`, 'Options are --quick and --only STAGE,….')
  if (at === -1) return args.includes('--quick') ? stages.filter((stage) => !stage.long) : stages
  const names = (args[at + 1] ?? '').split(',')
  const unknown = names.filter((name) => !stages.some((stage) => stage.name === name))
  if (unknown.length > 0) {
    const known = stages.map((stage) => stage.name).join(', ')
    throw new SetupError(`test: there is no stage "${unknown.join(', ')}"`, `Stages are ${known}.`)
  }
  return stages.filter((stage) => names.includes(stage.name))
}

function count(records, outcome) {
  return records.filter((record) => record.outcome === outcome).length
}

function report(stage, records, seconds) {
  const passed = count(records, 'passed')
  const failed = count(records, 'failed')
  const skipped = count(records, 'skipped')
  const mark = failed > 0 ? 'FAILED' : 'ok'
  const counts = `${passed} passed${failed ? `, ${failed} failed` : ''}${skipped ? `, ${skipped} skipped` : ''}`
  console.log(`${stage.title.padEnd(28)} ${mark.padEnd(7)} ${counts}  (${seconds.toFixed(1)} s)`)
  for (const { outcome, where, name, message, reason } of records) {
    if (outcome === 'skipped') console.log(`  skipped: ${name} (${where}): ${reason ?? 'no reason given'}`)
    if (outcome !== 'failed') continue
    console.log(`  failed: ${name} (${where})`)
    const lines = (message ?? '').trimEnd().split('\n').slice(0, 60)
    for (const line of lines) console.log(`    ${line}`)
  }
}

await main(async () => {
  const args = process.argv.slice(2)
  const chosen = chosenStages(args)
  await ensurePackages()
  await ensureSystemPackages(chosen.some((stage) => stage.needsSystem) ? 'test' : 'start')
  mkdirSync(cache, { recursive: true })
  const records = mkdtempSync(join(cache, 'test-'))
  // Tests never touch the records, the configuration or the sockets of the person who runs them.
  const home = mkdtempSync(join(tmpdir(), 'orangery-test-'))
  const all = []
  try {
    const runOne = async (stage) => {
      const started = performance.now()
      const found = await runStage(stage, { records, home })
      report(stage, found, (performance.now() - started) / 1000)
      all.push(...found)
    }
    // Checks only read, so they run side by side. So do the long ones, which mostly wait for what they started.
    const isShort = (stage) => !stage.check && !stage.long
    await Promise.all(chosen.filter((stage) => stage.check).map(runOne))
    for (const stage of chosen.filter(isShort)) await runOne(stage)
    await Promise.all(chosen.filter((stage) => stage.long).map(runOne))
  } finally {
    rmSync(records, { recursive: true, force: true })
    rmSync(home, { recursive: true, force: true })
  }
  const failed = count(all, 'failed')
  console.log(`${count(all, 'passed')} passed, ${failed} failed, ${count(all, 'skipped')} skipped`)
  return failed > 0 ? 1 : 0
})
