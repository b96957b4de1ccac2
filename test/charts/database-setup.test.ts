import { describe, expect, it } from 'vitest'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { waveOf } from '../../charts-src/tree/wave.ts'
import { anEnvironment, aTree, mistakesWith, objectIn } from './fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: a pod as it is rendered
type Fields = any

const jobOf = (environment: Environment): Fields => objectIn(aTree(environment), 'Job')
const envOf = (pod: Fields): Record<string, string> =>
  Object.fromEntries(pod.spec.containers[0].env.map(({ name, value }: Fields) => [name, value]))

describe.each(['dev', 'prod'] as const)('the Job that makes the API’s role, of %s', (name) => {
  const environment = anEnvironment(name)
  const { spec, metadata } = jobOf(environment)

  it('makes the role that the API logs in as, in the database that it uses, for its identity', () => {
    const deployment = objectIn(aTree(environment), 'Deployment') as Fields
    const api = new URL(envOf(deployment.spec.template)['DATABASE_URL'] ?? '')

    const setup = envOf(spec.template)

    expect(setup['AGENTWEAVER_DATABASE_ROLE']).toBe(api.username)
    expect(`/${setup['AGENTWEAVER_DATABASE_NAME']}`).toBe(api.pathname)
    const { databaseSetup } = environment.infra.azure ?? {}
    expect(setup['AGENTWEAVER_DATABASE_ROLE_OBJECT_ID']).toBe(databaseSetup?.apiObjectId)
    const admin = new URL(setup['DATABASE_URL'] ?? '')
    expect([admin.host, admin.username, admin.pathname]).toEqual([api.host, databaseSetup?.role, '/postgres'])
  })

  it('is restricted in every field of Pod Security, and has one token: the one that Entra exchanges', () => {
    const pod = spec.template.spec

    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    })
    expect(pod.containers).toHaveLength(1)
    expect(pod.containers[0].securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      privileged: false,
      readOnlyRootFilesystem: true,
    })
    expect(pod.volumes.map(({ projected }: Fields) => projected.sources)).toEqual([
      [{ serviceAccountToken: expect.objectContaining({ audience: 'api://AzureADTokenExchange' }) }],
    ])
  })

  it('is in a namespace without admission rules for Jobs and their pods', () => {
    const { objects } = aTree(environment)
    const policies = objects.filter(({ object }) => object.kind === 'ValidatingAdmissionPolicy') as Fields[]
    const about = policies.filter(({ object }) =>
      object.spec.matchConstraints.resourceRules.some(
        ({ resources, operations }: Fields) =>
          operations.includes('CREATE') && resources.some((one: string) => ['jobs', 'pods'].includes(one)),
      ),
    )

    expect(about.length).toBeGreaterThan(1)
    for (const { object } of about)
      expect(object.spec.matchConditions, object.metadata.name).toEqual([
        expect.objectContaining({ expression: "request.namespace.endsWith('-sandboxes')" }),
      ])
    expect(metadata.namespace).toBe('agentweaver')
  })

  it('comes before the API', () => {
    expect(waveOf('api', 'ServiceAccount')).toBeLessThanOrEqual(waveOf('api', 'Job'))
    expect(waveOf('api', 'Job')).toBeLessThan(waveOf('api', 'Deployment'))
    expect(waveOf('network', 'CiliumNetworkPolicy')).toBeLessThan(waveOf('api', 'Job'))
  })
})

describe('a change of the Job', () => {
  const withImage = (digit: string): Environment => {
    const dev = anEnvironment('dev')
    return { ...dev, images: { ...dev.images, api: dev.images.api.replace(/0{64}$/, digit.repeat(64)) } }
  }

  it('is another Job, since a Job cannot be changed', () => {
    const [first, second] = [jobOf(withImage('1')), jobOf(withImage('2'))]

    expect(first.metadata.name).not.toBe(second.metadata.name)
    expect(first.metadata.name).toMatch(/^agentweaver-database-setup-[0-9a-f]{8}$/)
  })

  it('does not happen if only other settings change', () => {
    const dev = anEnvironment('dev')
    const runs = { ...dev, sizes: { ...dev.sizes, runs: { ...dev.sizes.runs, maxHours: 3 } } }

    expect(jobOf(runs).metadata.name).toBe(jobOf(dev).metadata.name)
  })
})

describe('the identity that administers the database', () => {
  it.each(['local', 'pr-example'] as const)('is nothing of %s', (name) => {
    const { objects } = aTree(anEnvironment(name))

    expect(objects.filter(({ object }) => /database-setup/.test(JSON.stringify(object)))).toEqual([])
  })

  it('is rejected in the file of a preview and required in the file of a base', () => {
    const dev = anEnvironment('dev').infra.azure?.databaseSetup

    expect(mistakesWith('pr-example', (value) => (value['infra'].azure.databaseSetup = dev))).toEqual([
      expect.stringContaining('a preview must not administer the database'),
    ])
    expect(mistakesWith('dev', (value) => delete value['infra'].azure.databaseSetup)).toEqual([
      expect.stringContaining('infra.azure.databaseSetup: is missing'),
    ])
  })

  it('is separate from the identity of a preview, which has its own database on the same server', () => {
    const database = (name: 'dev' | 'pr-example') => anEnvironment(name).infra.database

    expect(database('pr-example').host).toBe(database('dev').host)
    expect(database('pr-example').name).not.toBe(database('dev').name)
  })
})
