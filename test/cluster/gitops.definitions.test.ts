import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CLAIM } from '../../contracts/claim.ts'
import { thirdPartyCrds } from '../../devcluster/addons/third-party-crds.ts'
import type { KubeObject } from '../../devcluster/client/kube-object.ts'
import { installCrds } from '../../devcluster/client/manifests.ts'
import { type GitopsRig, startGitopsRig } from './helpers/gitops-rig.ts'

const CRDS = { apiVersion: 'apiextensions.k8s.io/v1', plural: 'customresourcedefinitions' }
const TEMPLATES = `sandboxtemplates.${CLAIM.group}`
const POOLS = `sandboxwarmpools.${CLAIM.group}`

describe('a cluster whose CRDs differ from the tree', () => {
  let rig: GitopsRig

  beforeAll(async () => {
    rig = await startGitopsRig({})
  })
  afterAll(() => rig?.stop())

  const namespaces = async () =>
    (await rig.client.list({ apiVersion: 'v1', plural: 'namespaces' })).items.map(
      ({ metadata }) => metadata.name,
    )

  it('reports each missing kind by name, before anything is applied', async () => {
    const tree = rig.render('local')

    const { code, output } = await rig.apply(tree)

    expect(code).toBe(1)
    expect(output).toContain('has no kind Gateway in gateway.networking.k8s.io')
    expect(output).toContain('has no kind CiliumNetworkPolicy in cilium.io')
    expect(output).toContain('has no kind PodMonitor in monitoring.coreos.com')
    expect(output).toContain('nothing was applied')
    expect(await namespaces()).not.toContain('agentweaver')
  })

  it('reports the version that the cluster serves, and the field that it does not know', async () => {
    const tree = rig.render('local')
    await installCrds(rig.client, await thirdPartyCrds())
    await Promise.all([replaceCrd(rig, POOLS, renameVersion), replaceCrd(rig, TEMPLATES, dropField)])

    const { code, output } = await rig.apply(tree)

    expect(code).toBe(1)
    expect(output).toContain(`the cluster serves ${POOLS} in v1beta9, not in ${CLAIM.version}`)
    expect(output).toContain('spec.networkPolicyManagement: is a field that the cluster does not know')
    expect(output).not.toContain('Gateway')
    expect(await namespaces()).not.toContain('agentweaver')
  })
})

async function replaceCrd(rig: GitopsRig, name: string, change: (crd: KubeObject) => void): Promise<void> {
  const crd = structuredClone(await rig.client.get({ ...CRDS, name }))
  change(crd)
  const metadata = { name }
  await rig.client.delete({ ...CRDS, name })
  await expect.poll(() => rig.client.find({ ...CRDS, name }), { timeout: 20_000 }).toBeUndefined()
  await rig.client.create({ apiVersion: crd.apiVersion, kind: crd.kind, metadata, spec: crd['spec'] })
}

function renameVersion(crd: KubeObject): void {
  crd['spec'].versions = crd['spec'].versions
    .filter(({ name }: { name: string }) => name === CLAIM.version)
    .map((version: object) => ({ ...version, name: 'v1beta9' }))
}

function dropField(crd: KubeObject): void {
  for (const version of crd['spec'].versions) {
    delete version.schema.openAPIV3Schema.properties.spec.properties.networkPolicyManagement
  }
}
