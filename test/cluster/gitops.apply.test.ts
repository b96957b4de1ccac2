import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readTreeObjects } from '../../charts-src/apply/read-tree.ts'
import type { Environment } from '../../charts-src/environment/schema.ts'
import { CLAIM } from '../../contracts/claim.ts'
import { thirdPartyCrds } from '../../devcluster/addons/third-party-crds.ts'
import { type KubeObject, pathOf } from '../../devcluster/client/kube-object.ts'
import { installCrds } from '../../devcluster/client/manifests.ts'
import { whyNoNodes } from '../../devcluster/host/privileges.ts'
import { waitUntil } from '../../devcluster/host/wait-until.ts'
import { copyTree, type GitopsRig, startGitopsRig } from './helpers/gitops-rig.ts'
import {
  aClaim,
  anOpaqueSecret,
  asAccount,
  asTenant,
  BY_A_TENANT,
  BY_THE_API,
  getPod,
  type Insider,
} from './helpers/insiders.ts'
import { importStandIns } from './helpers/stand-in-images.ts'

const noNodes = whyNoNodes()
const POOLS = { apiVersion: `${CLAIM.group}/${CLAIM.version}`, plural: 'sandboxwarmpools' }
const READY_MS = 60_000

/** The address of a Service must be in the range of the cluster that gets the tree. */
const inThisCluster = (proxyAddress: string) => (environment: Environment) => ({
  ...environment,
  egress: { ...environment.egress, proxyAddress },
  infra: {
    ...environment.infra,
    network: { ...environment.infra.network, serviceCidrs: ['10.96.0.0/16'] },
  },
})

describe.skipIf(noNodes !== undefined)(
  `the tree of a local cluster${noNodes ? ` (skipped: ${noNodes})` : ''}`,
  () => {
    let rig: GitopsRig
    let tree: string
    /** The committed environment with existing images. */
    let withImages: (environment: Environment) => Environment

    beforeAll(async () => {
      rig = await startGitopsRig({ gvisor: true, cilium: 'instant' })
      await installCrds(rig.client, await thirdPartyCrds())
      const standIns = await importStandIns(rig.cluster)
      withImages = (environment) => ({ ...environment, images: { ...environment.images, ...standIns } })
      tree = rig.render('local', withImages)
    })
    afterAll(() => rig?.stop())

    const find = (object: KubeObject) => rig.client.find(pathOf(object))

    /** Waits until the autoscalers have scaled their Deployments to their minimum, which takes up to 15 seconds. */
    async function scaledUp(objects: readonly KubeObject[]): Promise<void> {
      for (const scaler of objects.filter(({ kind }) => kind === 'HorizontalPodAutoscaler')) {
        const { minReplicas, scaleTargetRef } = scaler['spec']
        const { name } = scaleTargetRef
        const target = objects.find(({ kind, metadata }) => kind === 'Deployment' && metadata.name === name)
        await waitUntil({ what: `${name} to be scaled up`, timeoutMs: READY_MS, everyMs: 500 }, async () =>
          target && (await find(target))?.['spec'].replicas >= minReplicas ? true : undefined,
        )
      }
    }

    it('is rejected as a whole when one field name is wrong', async () => {
      const damaged = copyTree(tree)
      const file = join(damaged, 'foundation/_cluster/Namespace.agentweaver.yaml')
      writeFileSync(file, `${readFileSync(file, 'utf8')}spek: {}\n`)

      const { code, output } = await rig.apply(damaged)

      expect(code).toBe(1)
      expect(output).toContain('spek')
    })

    it('is applied completely with strict server-side validation', async () => {
      const { code, output } = await rig.apply(tree)

      const objects = readTreeObjects(tree)
      expect(output).toContain(`${objects.length} objects fit the cluster's definitions`)
      expect(output).toContain(`applied ${objects.length} objects`)
      expect(code).toBe(0)
      const there = await Promise.all(objects.map(({ object }) => find(object as KubeObject)))
      expect(objects.filter((_, index) => there[index] === undefined)).toEqual([])
    })

    it('gets its warm pools from the real controller', async () => {
      const wanted = { 'agentweaver-agent': 2, 'agentweaver-command': 3 }

      const wait = { what: 'warm pools', timeoutMs: READY_MS, everyMs: 500 }
      const ready = await waitUntil(wait, async () => {
        const { items } = await rig.client.list({ ...POOLS, namespace: 'agentweaver-sandboxes' })
        const counts = Object.fromEntries(
          items.map((pool) => [pool.metadata.name, pool['status']?.readyReplicas ?? 0]),
        )
        return counts['agentweaver-agent'] === 2 && counts['agentweaver-command'] === 3 ? counts : undefined
      })

      expect(ready).toEqual(wanted)
      const pods = await rig.client.list({
        apiVersion: 'v1',
        plural: 'pods',
        namespace: 'agentweaver-sandboxes',
      })
      expect(pods.items.map((pod) => pod['spec'].runtimeClassName)).toEqual(Array(5).fill('gvisor'))
      expect(pods.items.map((pod) => pod['spec'].overhead)).toEqual(
        Array(5).fill({ cpu: '10m', memory: '32Mi' }),
      )
    })

    describe('refuses, regardless of RBAC,', () => {
      let insiders: Readonly<Record<'api' | 'tenant', Insider>>
      let pod: string
      beforeAll(async () => {
        const path = { apiVersion: 'v1', plural: 'pods', namespace: 'agentweaver-sandboxes' }
        pod = (await rig.client.list(path)).items[0]?.metadata.name ?? 'no pod'
        const api = asAccount(rig.client, 'agentweaver', 'agentweaver-api')
        insiders = { api, tenant: await asTenant(rig.client) }
      })
      afterAll(() => Promise.all(Object.values(insiders ?? {}).map((insider) => insider.close())))

      it.each(Object.keys(BY_THE_API))('the API: %s', async (title) => {
        const { status, message } = await insiders.api.ask(BY_THE_API[title]!(pod))

        expect(status, message).toBe(403)
      })

      it.each(Object.keys(BY_A_TENANT))('an administrator of the namespace: %s', async (title) => {
        const { status, message } = await insiders.tenant.ask(BY_A_TENANT[title]!(pod))

        expect(status, message).toBe(403)
        expect(message).toMatch(/denied request: \[[a-z-]+\] \S+|violates PodSecurity "restricted/)
      })

      it('but accepts the regular requests of each', async () => {
        const { api, tenant } = insiders

        const answers = await Promise.all([
          api.ask(aClaim()),
          api.ask(getPod(pod)),
          tenant.ask(getPod(pod)),
          tenant.ask(anOpaqueSecret()),
        ])

        expect(answers).toEqual(answers.map(() => ({ status: 200, message: '' })))
      })
    })

    it('changes nothing when it is applied a second time', async () => {
      const objects = readTreeObjects(tree).map(({ object }) => object as KubeObject)
      await scaledUp(objects)
      const before = await Promise.all(objects.map(find))

      const { code, output } = await rig.apply(tree)

      expect(output).not.toContain('left the tree')
      expect(code).toBe(0)
      const after = await Promise.all(objects.map(find))
      expect(after.map((object) => object && stateOf(object))).toEqual(
        before.map((object) => object && stateOf(object)),
      )
    })

    it('deletes only the objects that were removed from the tree', async () => {
      const smaller = rig.render('local', (environment) => {
        const { sizes } = withImages(environment)
        return {
          ...withImages(environment),
          sizes: { ...sizes, api: { ...sizes.api, maxReplicas: sizes.api.replicas } },
        }
      })
      const foreign = {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'of-somebody-else', namespace: 'agentweaver' },
      }
      await rig.client.create(foreign)

      const { code, output } = await rig.apply(smaller)

      expect(output).toContain(
        'deleted HorizontalPodAutoscaler agentweaver/agentweaver-api, which left the tree',
      )
      expect(output.match(/left the tree/g)).toHaveLength(1)
      expect(code).toBe(0)
      const left = readTreeObjects(tree).filter(({ object }) => object.kind === 'HorizontalPodAutoscaler')
      expect(await Promise.all(left.map(({ object }) => find(object as KubeObject)))).toEqual([undefined])
      const kept = [...readTreeObjects(smaller).map(({ object }) => object as KubeObject), foreign]
      expect((await Promise.all(kept.map(find))).filter((object) => object === undefined)).toEqual([])
    })

    it.each(['dev', 'prod'])(
      'accepts every object of %s in a dry run with strict validation',
      async (name) => {
        const { code, output } = await rig.kubectl(
          'apply',
          '--server-side',
          '--force-conflicts',
          '--dry-run=server',
          '--validate=strict',
          '--kustomize',
          rig.render(name, inThisCluster('10.96.0.128')),
        )

        expect(output).not.toMatch(/^error|is invalid/im)
        expect(code).toBe(0)
      },
    )

    it('accepts a preview in the same cluster once the namespaces of the preview exist', async () => {
      const preview = rig.render('pr-example', inThisCluster('10.96.0.129'))
      const objects = readTreeObjects(preview)
      const namespaces = new Set(objects.map(({ object }) => object.metadata.namespace ?? ''))
      for (const name of namespaces) {
        await rig.client.create({
          apiVersion: 'v1',
          kind: 'Namespace',
          metadata: { name, labels: { 'agentweaver.io/slice': 'aw-pr-example-50d858' } },
        })
      }

      const { code, output } = await rig.apply(preview)

      expect(namespaces.has('')).toBe(false)
      expect(output).toContain(`applied ${objects.length} objects`)
      expect(code).toBe(0)
    })

    it('has valid entry points for Argo CD and Flux', async () => {
      for (const name of ['argocd', 'flux-system']) {
        await rig.client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
      }

      const answers = await Promise.all(
        ['argocd', 'flux'].map((folder) =>
          rig.kubectl('apply', '--server-side', '--validate=strict', '--filename', join(tree, folder)),
        ),
      )

      expect(answers.map(({ code, output }) => [code, output.trim().split('\n').length])).toEqual([
        [0, 2],
        [0, 8],
      ])
    })

    // This test is the last one, because the controller retries late after the rejections during policy startup.
    it('admits the pods of the control plane under all of its policies', async () => {
      const pods = await waitUntil(
        { what: 'pods of the API', timeoutMs: READY_MS, everyMs: 500 },
        async () => {
          const { items } = await rig.client.list({
            apiVersion: 'v1',
            plural: 'pods',
            namespace: 'agentweaver',
          })
          return items.length >= 2 ? items : undefined
        },
      )

      // Their image is not available, so the pods need not run.
      expect(pods.map((pod) => pod['spec'].priorityClassName)).toEqual(
        pods.map(() => 'agentweaver-control-plane'),
      )
    })
  },
)

/** The fields that an apply could change. Controllers change the status, and with it the resource version. */
function stateOf(object: KubeObject) {
  const { resourceVersion, managedFields, ...metadata } = object.metadata as KubeObject['metadata'] & {
    managedFields?: readonly { operation: string; manager: string }[]
  }
  const ours = managedFields?.filter(({ manager }) => manager === 'agentweaver-gitops')
  const { status, ...rest } = object
  return { ...rest, metadata, ours, ...(status === undefined ? { resourceVersion } : {}) }
}
