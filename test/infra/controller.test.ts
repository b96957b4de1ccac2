import { existsSync } from 'node:fs'
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { controllerSurroundings, hardened } from '../../infra/plans/controller-hardening.ts'
import {
  CONTROLLER_FILES,
  CONTROLLER_SOURCE,
  CONTROLLER_VERSION,
  LOCK_ANNOTATION,
  lockedObjects,
} from '../../infra/plans/controller-release.ts'
import { parseKubeconfig } from '../../infra/release/kubeconfig.ts'
import { readRelease } from '../../infra/release/read-release.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** Where Go keeps the module that the test clusters are built from, if this machine has built one. */
const MODULE = join(homedir(), 'go/pkg/mod/sigs.k8s.io', `agent-sandbox@${CONTROLLER_VERSION}`, 'k8s')
const settings = { image: 'a.example.com/controller@sha256:'.padEnd(96, '0'), replicas: 2 }

test('the test clusters run the very release that the program installs', async () => {
  const modules = await readFile(join(ROOT, 'test/kube/tools/crds/go.mod'), 'utf8')

  expect(modules).toContain(`sigs.k8s.io/agent-sandbox ${CONTROLLER_VERSION}`)
})

describe.skipIf(!existsSync(MODULE))(
  'the pinned release (skipped without the Go module of the test clusters)',
  () => {
    test('is what the lock says, file by file and object by object', async () => {
      const objects = await readRelease({ folder: MODULE, cache: '/nonexistent' })

      const names = objects.map(({ apiVersion, kind, metadata: { name, namespace } }) => ({
        apiVersion,
        kind,
        name,
        namespace,
      }))
      expect(names).toEqual(
        lockedObjects().map(({ apiVersion, kind, metadata: { name, namespace } }) => ({
          apiVersion,
          kind,
          name,
          namespace,
        })),
      )
    })

    test('has no conversion webhook whose certificate somebody else would write', async () => {
      const objects = await readRelease({ folder: MODULE, cache: '/nonexistent' })

      const crds = objects.filter(({ kind }) => kind === 'CustomResourceDefinition')
      expect(crds).toHaveLength(4)
      expect(crds.filter(({ spec }) => 'conversion' in (spec as object))).toEqual([])
    })

    test('is hardened alike whether the whole object is known or only its name', async () => {
      const whole = await readRelease({ folder: MODULE, cache: '/nonexistent' })
      const deploymentOf = (objects: typeof whole) => objects.find(({ kind }) => kind === 'Deployment')
      const [a, b] = [deploymentOf(whole), deploymentOf(lockedObjects())]
      if (a === undefined || b === undefined) throw new Error('no Deployment')

      expect(hardened(a, settings)['spec']).toEqual(hardened(b, settings)['spec'])
      // What the release's own flags are, ours are too.
      const upstream = parse(await readFile(join(MODULE, 'extensions.controller.yaml'), 'utf8'))
      const container = (object: unknown) =>
        (object as { spec: { template: { spec: { containers: { args: string[] }[] } } } }).spec.template.spec
          .containers[0]
      expect(container(hardened(a, settings))?.args).toEqual(
        expect.arrayContaining(container(upstream)?.args ?? ['?']),
      )
    })

    test('is kept once it was downloaded, and asked for under its own version', async () => {
      const cache = await mkdtemp(join(tmpdir(), 'release-'))
      const asked: string[] = []
      const get: typeof fetch = async (url) => {
        asked.push(String(url))
        return new Response(await readFile(join(MODULE, String(url).slice(CONTROLLER_SOURCE.length + 1))))
      }
      const first = await readRelease({ cache, fetch: get })
      const again = await readRelease({ cache, fetch: () => Promise.reject(new Error('asked again')) })

      expect(asked.every((url) => url.includes(`/agent-sandbox/${CONTROLLER_VERSION}/k8s/`))).toBe(true)
      expect(again).toEqual(first)
      expect((await readdir(cache)).sort()).toEqual(CONTROLLER_FILES.map(({ sha256 }) => sha256).sort())
      await rm(cache, { recursive: true })
    })

    test('is refused when one byte of one file differs', async () => {
      const folder = await mkdtemp(join(tmpdir(), 'release-'))
      await cp(MODULE, folder, { recursive: true })
      const file = join(folder, 'rbac.generated.yaml')
      await rm(file)
      await writeFile(file, `${await readFile(join(MODULE, 'rbac.generated.yaml'), 'utf8')}#`)

      await expect(readRelease({ folder, cache: '/nonexistent' })).rejects.toThrow(
        /rbac\.generated\.yaml of .* is not the pinned file/,
      )
      await rm(folder, { recursive: true })
    })
  },
)

describe('a release that is not the pinned one', () => {
  let cache = ''
  beforeEach(async () => {
    cache = await mkdtemp(join(tmpdir(), 'release-'))
  })
  afterEach(() => rm(cache, { recursive: true }))

  test('is refused from the network, and not kept', async () => {
    const get = async () => new Response('kind: ClusterRoleBinding')

    await expect(readRelease({ cache, fetch: get })).rejects.toThrow(/is not the pinned file: sha256/)
    expect(await readdir(cache)).toEqual([])
  })

  test('is refused from the cache too, whoever put it there', async () => {
    for (const { sha256 } of CONTROLLER_FILES)
      await writeFile(join(cache, sha256), 'kind: ClusterRoleBinding')

    await expect(readRelease({ cache, fetch: () => Promise.reject(new Error('asked')) })).rejects.toThrow(
      /is not the pinned/,
    )
  })

  test('is told when the network answers otherwise', async () => {
    const get = async () => new Response('', { status: 404 })

    await expect(readRelease({ cache, fetch: get })).rejects.toThrow(/answered 404: give controller\.folder/)
  })
})

test('an object that stands for one of the release carries the checksum of its file', () => {
  const files = new Set(CONTROLLER_FILES.map(({ sha256 }) => sha256))

  for (const { metadata } of lockedObjects()) {
    const annotations = metadata['annotations'] as Record<string, string>
    expect(files).toContain(annotations[LOCK_ANNOTATION])
  }
})

test('the controller runs as nobody, with limits and probes, in a namespace that is closed both ways', () => {
  const [deployment] = lockedObjects()
    .filter(({ kind }) => kind === 'Deployment')
    .map((one) => hardened(one, settings))
  const [namespace] = lockedObjects()
    .filter(({ kind }) => kind === 'Namespace')
    .map((one) => hardened(one, settings))
  const [deny] = controllerSurroundings(443, 'kube-system')

  expect(deployment).toMatchObject({
    spec: {
      template: {
        spec: {
          securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
          containers: [
            {
              image: settings.image,
              securityContext: {
                allowPrivilegeEscalation: false,
                readOnlyRootFilesystem: true,
                capabilities: { drop: ['ALL'] },
              },
              resources: { limits: { memory: expect.any(String), cpu: expect.any(String) } },
              livenessProbe: expect.any(Object),
              readinessProbe: expect.any(Object),
              startupProbe: expect.any(Object),
            },
          ],
        },
      },
    },
  })
  expect(namespace?.metadata['labels']).toMatchObject({ 'pod-security.kubernetes.io/enforce': 'restricted' })
  expect(deny?.['spec']).toEqual({ podSelector: {}, policyTypes: ['Ingress', 'Egress'] })
})

describe('the credential of the cluster', () => {
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: '/tmp/kubelogin',
    args: ['get-token', '--login', 'devicecode'],
  }
  const answered = (user: object) =>
    Buffer.from(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Config',
        clusters: [{}],
        contexts: [{}],
        users: [{ name: 'u', user }],
      }),
    ).toString('base64')

  test('logs in without a person, as whoever runs the program', () => {
    const { users } = JSON.parse(parseKubeconfig(answered({ exec })))

    expect(users[0].user.exec).toMatchObject({
      command: 'kubelogin',
      args: ['get-token', '--login', 'azurecli', '--server-id', '6dae42f8-4368-4678-94ff-3960e28e3630'],
      interactiveMode: 'Never',
    })
  })

  test.each([
    ['a token', { exec, token: 'x' }],
    ['a key', { exec, 'client-key-data': 'x' }],
    ['a certificate alone', { 'client-certificate-data': 'x' }],
  ])('is refused with %s in it, which would end in the state', (_what, user) => {
    expect(() => parseKubeconfig(answered(user))).toThrow(/is no Entra login/)
  })

  test.each(['', 'AAAA', Buffer.from('{}').toString('base64')])('is refused when it is none: %j', (text) => {
    expect(() => parseKubeconfig(text)).toThrow()
  })
})
