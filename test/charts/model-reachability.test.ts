import { describe, expect, it } from 'vitest'
import { checkReachability } from '../../charts-src/access-matrix/check-reachability.ts'
import { loadEnvironment } from '../../charts-src/environment/load-environment.ts'
import { renderEnvironment } from '../../charts-src/tree/render.ts'
import { placedObjects } from '../../charts-src/tree/tree-files.ts'
import {
  type EgressPolicy,
  loadEgressPolicy,
  readEgressPolicy,
  readEgressPolicyText,
} from '../../policies/agent/egress/load.ts'
import { environmentText, type Loose, PROXY_SIZE, setEgress } from './fixture.ts'

const HOST = 'aw-models.openai.azure.com'

/** Production with a model resource. Agents use it only in mode `proxy`. */
function environment(mode: 'proxy' | 'fqdn') {
  const value = JSON.parse(environmentText('prod')) as Loose
  value['infra'].azure.modelHost = HOST
  if (mode === 'fqdn') setEgress(value, { mode })
  else {
    value['models'].foundry = { names: ['gpt-5'] }
    value['sizes'].egressProxy.credentials = PROXY_SIZE.container
  }
  const loaded = loadEnvironment('prod', JSON.stringify(value))
  if (!loaded.ok) throw new Error(loaded.mistakes.join('\n'))
  return loaded.environment
}

const objectsOf = (mode: 'proxy' | 'fqdn', policy: EgressPolicy = readEgressPolicy()) =>
  placedObjects(renderEnvironment(environment(mode), policy)).map(({ object }) => object)

/** The list of this repository with an entry of the resource in class `agent`. */
const policyWith = (more: string): EgressPolicy => {
  const entry = `{ host: "\${model-host}", ports: [443], mode: full, caller: agent-host, ${more}, why: the model resource of the company }`
  return loadEgressPolicy(readEgressPolicyText().replace('  command:\n', `    - ${entry}\n  command:\n`))
}

describe('the model resource', () => {
  it.each(['proxy', 'fqdn'] as const)('cannot be looked up or reached by a sandbox in mode %s', (mode) => {
    expect(checkReachability(objectsOf(mode), environment(mode))).toEqual([])
  })

  it('is found by this check if a policy opens it to sandboxes (control)', () => {
    const objects = objectsOf('fqdn', policyWith('fqdn: allow'))

    expect(checkReachability(objects, environment('fqdn'))).toContainEqual(
      expect.stringContaining(`may not even look up ${HOST}`),
    )
  })

  it('is opened at its private address to the proxy, and to no sandbox', () => {
    const policy = policyWith('addresses: [10.99.2.3/32]')
    const objects = objectsOf('proxy', policy)
    const found = objects.find(({ metadata }) => metadata.name.endsWith('proxy-egress'))

    expect(JSON.stringify(found)).toContain('10.99.2.3/32')
    expect(checkReachability(objects, environment('proxy'), policy)).toEqual([])
  })
})
