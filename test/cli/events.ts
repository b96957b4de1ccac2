import type { RunEvent } from '../../contracts/events.ts'

export const queued: RunEvent = { type: 'run.queued', data: { task: 'fix it' } }
export const done = (state: 'succeeded' | 'failed' | 'cancelled'): RunEvent => ({
  type: 'done',
  data: { state },
})

export const anApproval = (change: Partial<{ requestId: string; command: string; redacted: boolean }> = {}) =>
  ({
    type: 'shell.approval_required',
    data: {
      requestId: 'req-1',
      callId: 'call-1',
      tool: 'run_command',
      request: { command: 'rm -rf build' },
      matched: ['delete-tree'],
      expiresAt: new Date(Date.now() + 900_000).toISOString(),
      redacted: false,
      commandHash: '0123456789abcdef',
      command: 'rm -rf build',
      workingDirectory: '.',
      ...change,
    },
  }) as const satisfies RunEvent

export const approved: RunEvent = {
  type: 'shell.approved',
  data: { requestId: 'req-1', callId: 'call-1', by: 'me' },
}
