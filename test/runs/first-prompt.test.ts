import { expect, it } from 'vitest'
import { firstPrompt } from '../../runtime/api/runs/admit/origin.ts'
import type { CallRow } from '../../runtime/store/call-row.ts'
import type { RunRow, Transaction } from '../../runtime/store/store.ts'

const CALLS: Record<string, Pick<CallRow, 'tool'> & { decision?: object }> = {
  waits: { tool: 'run_command' },
  pushed: { tool: 'git_push', decision: { outcome: 'release' } },
  refused: { tool: 'write_file', decision: { outcome: 'deny' } },
}
const tx = { readCall: async (_run: string, callId: string) => CALLS[callId] } as unknown as Transaction
const fork = {
  task: 'Finish it',
  workspace: { kind: 'run', runId: 'run_1' },
  source: { runId: 'run_1', checkpointAt: '', copied: ['session', 'workspace'], sequence: 3 },
} as unknown as RunRow
const origin = (checkpoint: object) =>
  ({ id: 'run_1', checkpoint: { sequence: 3, ...checkpoint } }) as unknown as RunRow

it('names the calls that the other run carried out after the copy, and not those that it did not', async () => {
  const prompt = await firstPrompt(
    tx,
    fork,
    origin({ turnId: 't', openCalls: ['pushed', 'refused', 'gone'] }),
  )

  expect(prompt).toBe(
    [
      'This conversation is a copy of the run run_1, made in the middle of a turn. That turn does not continue here.',
      'These calls were carried out in run_1 after the copy was made: "git_push". Their effects outside the workspace remain, and their effects on files are not here. Check before you repeat one.',
      'The request:',
      '',
      'Finish it',
    ].join('\n'),
  )
})

it('names the calls that waited for a person when the copy was made', async () => {
  const prompt = await firstPrompt(tx, fork, origin({ turnId: 't', carriedCalls: ['waits'], openCalls: [] }))

  expect(prompt).toContain('These calls waited for a person then: "run_command".')
  expect(prompt).not.toContain('carried out in run_1 after')
})

it('is the task alone after a turn that had ended', async () => {
  expect(await firstPrompt(tx, fork, origin({ openCalls: ['pushed'] }))).toBe('Finish it')
})
