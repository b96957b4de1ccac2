import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readTreeObjects } from '../../charts-src/apply/read-tree.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import type { AdmissionParameters } from '../../policies/admission/parameters.ts'
import { but, create, type Draft } from '../admission/examples/attempt.ts'
import { kataParameters } from '../admission/space.ts'
import { useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'

const GITOPS = join(import.meta.dirname, '../../gitops')
const ENVIRONMENTS = ['dev', 'prod', 'local', 'pr-example']

const committed = (environment: string): Draft[] =>
  readTreeObjects(join(GITOPS, environment)).map(({ object }) => object as Draft)

function parameterDataOf(environment: string): AdmissionParameters {
  const found = committed(environment).find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'agentweaver-admission',
  )
  return found!['data']
}

/** The committed parameters with a runtime class and a priority class of this cluster. */
function parametersOf(environment: string, runtimeClass: string): AdmissionParameters {
  return { ...parameterDataOf(environment), runtimeClass, priorityClass: '' }
}

/** The pod that the controller would create from a template, including its volume. */
function podOf(template: Draft, namespace: string): KubeObject {
  const { podTemplate, volumeClaimTemplates = [] } = template['spec']
  const name = 'made'
  const volumes = volumeClaimTemplates.map((claim: Draft) => ({
    name: claim['metadata'].name,
    persistentVolumeClaim: { claimName: `${claim['metadata'].name}-${name}` },
  }))
  const spec = { ...podTemplate.spec, volumes: [...podTemplate.spec.volumes, ...volumes] }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels: podTemplate.metadata.labels },
    spec,
  }
}

describeWith(['agent-sandbox'], 'the committed templates', () => {
  const beside = Object.fromEntries(
    ENVIRONMENTS.map((environment) => [
      environment,
      { parameters: (id: string) => parametersOf(environment, id) },
    ]),
  )
  const test = useAdmissionSpace('tree', { parameters: kataParameters, beside })
  const templates = ENVIRONMENTS.flatMap((environment) =>
    committed(environment)
      .filter(({ kind }) => kind === 'SandboxTemplate')
      .map((template) => ({ environment, name: String(template['metadata'].name), template })),
  )

  it('exist twice in every environment', () => {
    expect(templates).toHaveLength(2 * ENVIRONMENTS.length)
  })

  it.each(templates)(
    'of $environment create pods that pass every rule: $name',
    async ({ environment, template }) => {
      const { namespace, parameters } = test.beside(environment)
      const { runtimeClass, priorityClass } = parameterDataOf(environment)
      const made = podOf(template, namespace)
      expect(made['spec'].runtimeClassName).toBe(runtimeClass)
      expect(made['spec'].priorityClassName).toBe(priorityClass)
      const here = but(made, ({ spec }) => {
        spec.runtimeClassName = parameters.runtimeClass
        delete spec.priorityClassName
      })
      const onHost = but(here, ({ spec }) => {
        spec.hostNetwork = true
      })

      expect(await test.ask(create('controller', here))).toMatchObject({ status: 200 })
      expect(await test.ask(create('controller', onHost))).toMatchObject({
        status: 403,
        rule: 'pod-host-network',
      })
    },
  )

  it.each(templates)(
    'of $environment are admitted for the GitOps identity: $name',
    async ({ environment, name, template }) => {
      const { apiVersion, kind, spec } = template
      const { namespace } = test.beside(environment)

      const answer = await test.ask(
        create('gitops', { apiVersion, kind, metadata: { name, namespace }, spec } as KubeObject),
      )

      expect(answer).toMatchObject({ status: 200 })
    },
  )
})
