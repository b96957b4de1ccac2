import { randomBytes } from 'node:crypto'
import { SandboxSettings } from '../../contracts/policy.ts'
import type { CallRow } from '../../runtime/store/call-row.ts'
import type { TrustedFolder } from '../../runtime/store/service-rows.ts'
import type { ApprovalRow, ClaimRow, NewEvent, NewRun, Store } from '../../runtime/store/store.ts'

const hex = (bytes = 16) => randomBytes(bytes).toString('hex')

export const aRun = (over: Partial<NewRun> = {}): NewRun => ({
  id: `run_${hex()}`,
  kind: 'agent',
  owner: 'ada',
  state: 'queued',
  task: 'Fix the failing test',
  workspace: { kind: 'empty' },
  agent: { kind: 'scripted' },
  agentSpec: { kind: 'scripted', plan: { turns: [[]] } },
  labels: {},
  settings: SandboxSettings.parse({}),
  interactive: false,
  policyVersion: 'p1',
  keyId: 'k1',
  endsWithService: false,
  ...over,
})

/** Inserts a run and returns its id. */
export async function givenRun(store: Store, over: Partial<NewRun> = {}): Promise<string> {
  const { id } = await store.transaction((tx) => tx.insertRun(aRun(over)))
  return id
}

export const anEvent = (text: string, host?: NewEvent['host']): NewEvent => ({
  event: { type: 'agent.message', data: { messageId: 'm', text } },
  ...(host && { host }),
})

export const anApproval = (runId: string, over: Partial<ApprovalRow> = {}): ApprovalRow => ({
  requestId: `req_${hex()}`,
  runId,
  callId: 'call-1',
  kind: 'shell',
  tool: 'run_command',
  binding: hex(32),
  commandHash: hex(8),
  redacted: false,
  state: 'pending',
  expiresAt: '2030-01-01T00:00:00.000Z',
  createdAt: '2026-01-01T00:00:00.000Z',
  ...over,
})

export const aCall = (runId: string, over: Partial<CallRow> = {}): CallRow => ({
  runId,
  callId: `call_${hex(4)}`,
  tool: 'run_command',
  state: 'open',
  openedAt: '2026-01-01T00:00:00.000Z',
  sequence: 0,
  ...over,
})

export const aClaim = (runId: string, over: Partial<ClaimRow> = {}): ClaimRow => ({
  namespace: 'local',
  name: `agent-${hex(8)}`,
  generation: 1,
  runId,
  keyId: 'k1',
  state: 'requested',
  createdAt: '2026-01-01T00:00:00.000Z',
  ...over,
})

export const aTrustedFolder = (over: Partial<TrustedFolder> = {}): TrustedFolder => ({
  owner: 'ada',
  path: '/home/ada/project',
  settings: 'shell_enabled: false\n',
  origin: 'first_run',
  trustedAt: '2026-01-01T00:00:00.000Z',
  ...over,
})
