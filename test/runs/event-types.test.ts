import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { RunEvent } from '../../contracts/events.ts'

const RUNTIME = join(import.meta.dirname, '../../runtime')
/** The second half of these is the decision: `runtime/api/runs` puts the two together. */
const DECISIONS = /^(?:shell|tool)\.(?:approved|denied|expired|superseded)$/

test('describes no event that the service never emits', () => {
  const sources = readdirSync(RUNTIME, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => readFileSync(join(RUNTIME, file), 'utf8'))
  const types = RunEvent.options.map(({ shape }) => shape.type.value as string)

  const silent = types.filter(
    (type) => !DECISIONS.test(type) && !sources.some((source) => source.includes(`'${type}'`)),
  )

  expect(types).toContain('run.started')
  expect(silent).toEqual([])
})
