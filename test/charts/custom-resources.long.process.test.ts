import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { customResourceFaults } from '../../charts-src/checks/custom-resources.ts'
import { addArgoEntry } from '../../charts-src/tree/argo-entry.ts'
import { chartObjects } from '../../charts-src/tree/chart-objects.ts'
import { addFluxEntry } from '../../charts-src/tree/flux-entry.ts'
import { readCrds, thirdPartyCrds } from '../../devcluster/addons/third-party-crds.ts'
import { readGoVersion } from '../../devcluster/build/go-version.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { anEnvironment, appsOf, aTree, ENVIRONMENTS, objectIn, ROOT } from './fixture.ts'

const TOOLS = join(ROOT, 'devcluster/tools')

it('is judged by the definitions of the same versions that clusters here run', () => {
  const versionOf = (module: string, dependency: string) =>
    new RegExp(`${dependency} (v\\S+)`).exec(readFileSync(join(TOOLS, module, 'go.mod'), 'utf8'))?.[1]

  expect(versionOf('crds', 'sigs.k8s.io/agent-sandbox')).toBe(
    versionOf('kubernetes', 'sigs.k8s.io/agent-sandbox'),
  )
  expect(versionOf('crds', 'github.com/cilium/cilium')).toBe(versionOf('cilium', 'github.com/cilium/cilium'))
})

type Tree = ReturnType<typeof aTree>

/** Returns why the tests are skipped. The CRDs come from the Go module proxy, so these tests need Go. */
function whyNoDefinitions(): string | undefined {
  try {
    readGoVersion()
    return undefined
  } catch (error) {
    return messageOf(error)
  }
}

const missing = whyNoDefinitions()

describe.skipIf(missing !== undefined)(`custom resources${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let crds: KubeObject[]

  beforeAll(async () => {
    const served = [
      ['crds', 'agent-sandbox'],
      ['crds', 'cilium'],
    ] as const
    crds = [...(await thirdPartyCrds()), ...(await readCrds(served))]
  })

  it.each(ENVIRONMENTS)('of %s, its ways in included, are what the real definitions describe', (name) => {
    const environment = anEnvironment(name)
    const apps = appsOf(environment)
    const entries = [addArgoEntry, addFluxEntry].flatMap((add) =>
      chartObjects((chart) => add(chart, environment, apps)),
    )

    const findings = customResourceFaults(
      [...aTree(environment).objects, ...entries.map((object) => ({ path: object.kind, object }))],
      crds,
    )

    expect(findings).toEqual([])
  })

  it.each<[string, (tree: Tree) => void, string]>([
    [
      'a field that the definition does not know',
      (tree) => (objectIn(tree, 'SandboxWarmPool')['spec'].replica = 1),
      'spec.replica: is a field that the cluster does not know',
    ],
    [
      'a field of the pod that Kubernetes does not know',
      (tree) =>
        (objectIn(tree, 'SandboxTemplate')['spec'].podTemplate.spec.containers[1].securityContxt = {}),
      'spec.podTemplate.spec.containers[1].securityContxt: is a field that the cluster does not know',
    ],
    [
      'a value of another type',
      (tree) => (objectIn(tree, 'SandboxWarmPool')['spec'].replicas = '2'),
      'spec.replicas: must be of type integer, not string',
    ],
    [
      'a value that is not listed',
      (tree) => (objectIn(tree, 'SandboxTemplate')['spec'].networkPolicyManagement = 'Off'),
      'spec.networkPolicyManagement: "Off" is not one of Managed, Unmanaged',
    ],
    [
      'a field that is missing',
      (tree) => delete objectIn(tree, 'SandboxWarmPool')['spec'].sandboxTemplateRef,
      'spec: lacks sandboxTemplateRef',
    ],
    [
      'a number out of bounds',
      (tree) => (objectIn(tree, 'Gateway')['spec'].listeners[0].port = 70_000),
      'spec.listeners[0].port: is 70000, above 65535',
    ],
    [
      'two listeners of one name',
      (tree) => (objectIn(tree, 'Gateway')['spec'].listeners[1].name = 'https'),
      'spec.listeners: two entries have the same name: ["https"]',
    ],
    [
      'a rule of Cilium that is neither for pods nor for nodes',
      (tree) => delete objectIn(tree, 'CiliumNetworkPolicy')['spec'].endpointSelector,
      'spec: holds 0 of',
    ],
    [
      'a text that does not match',
      (tree) => (objectIn(tree, 'HTTPRoute')['spec'].parentRefs[0].name = ''),
      'spec.parentRefs[0].name: has the length 0, below 1',
    ],
    [
      'a version that is not served',
      (tree) => Object.assign(objectIn(tree, 'Gateway'), { apiVersion: 'gateway.networking.k8s.io/v2' }),
      'the cluster serves gateways.gateway.networking.k8s.io in v1, v1beta1, not in v2',
    ],
    [
      'a kind that is not there',
      (tree) => Object.assign(objectIn(tree, 'Gateway'), { kind: 'Gatway' }),
      'the cluster has no kind Gatway in gateway.networking.k8s.io',
    ],
    [
      'an object without a namespace',
      (tree) => delete (objectIn(tree, 'SandboxWarmPool').metadata as { namespace?: string }).namespace,
      'SandboxWarmPool needs a namespace',
    ],
  ])('are refused with %s', (_, plant, message) => {
    const tree = aTree(anEnvironment('dev'))

    plant(tree)

    const findings = customResourceFaults(tree.objects, crds)
    expect(findings.map((finding) => finding.message)).toContainEqual(expect.stringContaining(message))
  })
})
