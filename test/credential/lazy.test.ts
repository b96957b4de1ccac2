import { expect, it } from 'vitest'
import { packagesOf } from '../helpers/loaded-by.ts'

it.each([
  'agent-host/server.ts',
  'agent-host/app.ts',
  'agent-host/session/run-session.ts',
  'api/server.ts',
  'egress/cluster/server.ts',
])('loads no Azure SDK with %s', (entry) => {
  expect(packagesOf(`runtime/${entry}`, '@azure/')).toEqual([])
})

it('loads the SDK with the credential that needs it (control)', () => {
  expect(packagesOf('runtime/azure/azure-clients.ts', '@azure/')).toContain('@azure/identity')
})
