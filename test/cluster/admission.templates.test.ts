import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readTreeObjects } from '../../charts-src/apply/read-tree.ts'
import type { AdmissionParameters } from '../../policies/admission/parameters.ts'
import { but, create, type Draft } from '../admission/examples/attempt.ts'
import type { KubeObject } from '../kube/client/kube-object.ts'
import { useAdmissionSpace } from './helpers/admission-space.ts'
import { describeWith } from './helpers/features.ts'

const GITOPS = join(import.meta.dirname, '../../gitops')
const ENVIRONMENTS = ['dev', 'prod', 'local', 'pr-example']

const committed = (environment: string): Draft[] =>
  readTreeObjects(join(GITOPS, environment)).map(({ object }) => object as Draft)

/** The committed parameters, but with a runtime class and a priority that this cluster has. */
function parametersOf(environment: string, runtimeClass: string): AdmissionParameters {
  const found = committed(environment).find(
    ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === 'agentweaver-admission',
  )
  return { ...found!['data'], runtimeClass, priorityClass: '' }
}

/** The pod that the controller would make of a template, first of all with its volume. */
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
  for (const environment of ENVIRONMENTS) {
    const prefix = `tree-${environment.slice(0, 2)}`
    const test = useAdmissionSpace(prefix, { parameters: (id) => parametersOf(environment, id) })
    const templates = committed(environment).filter(({ kind }) => kind === 'SandboxTemplate')
    const { runtimeClass: expectedClass, priorityClass } = committed(environment).find(
      ({ metadata }) => metadata.name === 'agentweaver-admission',
    )!['data']

    it.each(templates.map(({ metadata }) => String(metadata.name)))(
      `of ${environment} make pods that pass every rule: %s`,
      async (name) => {
        const template = templates.find(({ metadata }) => metadata.name === name)!
        const made = podOf(template, test.namespace)
        expect(made['spec'].runtimeClassName).toBe(expectedClass)
        expect(made['spec'].priorityClassName).toBe(priorityClass)

        const here = but(made, ({ spec }) => {
          spec.runtimeClassName = test.parameters.runtimeClass
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

    it.each(templates.map(({ metadata }) => String(metadata.name)))(
      `of ${environment} pass themselves, by the GitOps identity: %s`,
      async (name) => {
        const template = templates.find(({ metadata }) => metadata.name === name)!
        const { apiVersion, kind, spec } = template
        const here = { apiVersion, kind, metadata: { name, namespace: test.namespace }, spec }

        expect(await test.ask(create('gitops', here as KubeObject))).toMatchObject({ status: 200 })
      },
    )
  }
})
