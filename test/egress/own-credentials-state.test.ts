import { expect, it } from 'vitest'
import { SandboxSettings } from '../../contracts/policy.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { NO_CREDENTIALS } from '../../runtime/api/credentials/credentials.ts'
import { generationsOf } from '../../runtime/api/egress/control-state.ts'
import { createNetworkRules } from '../../runtime/api/egress/network-rules.ts'
import { createRunCredentials } from '../../runtime/api/egress/run-credentials.ts'
import type { LiveNetwork } from '../../runtime/store/egress.ts'
import { MemoryStore } from '../api/memory-store.ts'
import { noRestrictions } from '../helpers/no-restrictions.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'

const HOST = 'npm.corp.example.com'
const VALUE = 'npm_0123456789abcdefghijklmnopqrstuvwxyz'
const POLICY = `
apiVersion: agentweaver.io/v1
kind: EgressPolicy
name: test
classes:
  agent:
    - { preset: npm, host: ${HOST}, why: the registry of the test }
  command: []
`

const networkOf = (owner: string): LiveNetwork => ({
  ...{ runId: `run-of-${owner}`, generation: 1, kind: 'agent', owner, agentSpec: null, allowedHosts: [] },
  pushed: [],
  pod: { uid: owner, addresses: ['10.0.0.1'] },
  settings: SandboxSettings.parse({ network_enabled: true }),
})

it('lists the credential of an owner for the sandboxes of this owner, and reads it for no other', async () => {
  const { service, credentials } = ownCredentials({ store: new MemoryStore() })
  const ofRuns = createRunCredentials(NO_CREDENTIALS, credentials, new Uint8Array(32))
  const parts = {
    rules: createNetworkRules(loadEgressPolicy(POLICY)),
    restrictions: noRestrictions(),
    credentials: ofRuns,
  }
  const state = () => generationsOf([networkOf('ada'), networkOf('bob')], parts)
  const idsOf = () => state().map(({ destinations }) => destinations.map(({ credential }) => credential))

  const { credentialId } = await service.set({ owner: 'ada', role: 'user' }, 'registry', {
    host: HOST,
    value: VALUE,
  })

  expect(idsOf()).toEqual([[credentialId], [undefined]])
  expect(JSON.stringify(state())).not.toContain(VALUE)
  expect(await ofRuns.read(credentialId, 'ada')).toEqual({ value: VALUE })
  await expect(ofRuns.read(credentialId, 'bob')).rejects.toMatchObject({ code: 'credential_absent' })

  await service.remove({ owner: 'ada', role: 'user' }, 'registry', { host: HOST })
  expect(idsOf()).toEqual([[undefined], [undefined]])
  await expect(ofRuns.read(credentialId, 'ada')).rejects.toMatchObject({ code: 'credential_absent' })
})
