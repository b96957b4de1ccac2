import { expect, test } from 'vitest'
import { lossWords } from '../../runtime/api/runs/drive/loss-words.ts'
import { aRun } from '../store/rows.ts'

const CHECKPOINT = '2026-01-01T00:00:03.000Z'
const sandbox = {
  name: 'a',
  isolation: { backend: 'linux-bwrap', isRealIsolation: true, enforcesEgress: true, reason: 'r' },
}
const lost = (change: object) =>
  lossWords({ ...aRun(), sandbox, ...change } as unknown as Parameters<typeof lossWords>[0])

test('names the last checkpoint and the location of its files', () => {
  const words = lost({ id: 'run_1', workspace: { kind: 'empty' }, checkpointAt: CHECKPOINT })

  expect(words).toBe(
    `The last checkpoint is of ${CHECKPOINT}. GET /api/runs/run_1/workspace gives the files as they were then; later changes are lost. Start the run again to go on.`,
  )
})

test('reports that no checkpoint exists, the reason, and the lost files', () => {
  expect(lost({ workspace: { kind: 'upload' } })).toMatch(
    /^There is no checkpoint: .*uploaded files are lost/,
  )
  expect(lost({ kind: 'command', workspace: { kind: 'empty' } })).toMatch(
    /files are lost\. Create a new sandbox/,
  )
})

test('points to diff for changes in the copy of a folder, with or without a checkpoint', () => {
  const workspace = { kind: 'path', path: '/p', mode: 'isolated' }

  expect(lost({ id: 'run_1', workspace })).toContain(
    'in its copy of the folder is kept: see "agentweaver diff run_1"',
  )
})

test('promises nothing of a run that had no sandbox yet', () => {
  expect(lost({ workspace: { kind: 'path', path: '/p' }, sandbox: undefined })).toContain('It had not begun')
})
