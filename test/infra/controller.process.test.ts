import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { appendFile, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { parseKubeconfig } from '../../infra/components/kubeconfig.ts'
import { controllerSurroundings, hardened } from '../../infra/model/controller-hardening.ts'
import {
  CONTROLLER_FILES,
  CONTROLLER_SOURCE,
  CONTROLLER_VERSION,
  lockedObjects,
} from '../../infra/model/controller-release.ts'
import { fetchRelease } from '../../infra/release/fetch-release.ts'
import { readRelease } from '../../infra/release/read-release.ts'
import { readStackText } from '../../infra/stack-file.ts'
import { runProgram } from '../../tools/offline-plan/engine/run-program.ts'

const ROOT = resolve(import.meta.dirname, '../..')
/** Where Go keeps the module that the test clusters are built from, if this machine has built one. */
const MODULE = join(homedir(), 'go/pkg/mod/sigs.k8s.io', `agent-sandbox@${CONTROLLER_VERSION}`, 'k8s')
async function aFolder() {
  const path = await mkdtemp(join(tmpdir(), 'release-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}
const controller = (...argv: string[]) =>
  spawnSync(process.execPath, [join(ROOT, 'infra/release/main.ts'), ...argv], { encoding: 'utf8' })
const settings = { image: 'a.example.com/controller@sha256:'.padEnd(96, '0'), replicas: 2 }

test('the test clusters run the release that the program installs', async () => {
  const modules = await readFile(join(ROOT, 'devcluster/tools/crds/go.mod'), 'utf8')

  expect(modules).toContain(`sigs.k8s.io/agent-sandbox ${CONTROLLER_VERSION}`)
})

describe.skipIf(!existsSync(MODULE))(
  'the pinned release (skipped without the Go module of the test clusters)',
  () => {
    test('equals the lock, file by file and object by object', async () => {
      const objects = await readRelease(MODULE)

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

    test('has no conversion webhook whose certificate would need another writer', async () => {
      const objects = await readRelease(MODULE)

      const crds = objects.filter(({ kind }) => kind === 'CustomResourceDefinition')
      expect(crds).toHaveLength(4)
      expect(crds.filter(({ spec }) => 'conversion' in (spec as object))).toEqual([])
    })

    test('is hardened in the same way for a whole object and for its name only', async () => {
      const whole = await readRelease(MODULE)
      const deploymentOf = (objects: typeof whole) => objects.find(({ kind }) => kind === 'Deployment')
      const [a, b] = [deploymentOf(whole), deploymentOf(lockedObjects())]
      if (a === undefined || b === undefined) throw new Error('no Deployment')

      expect(hardened(a, settings)['spec']).toEqual(hardened(b, settings)['spec'])
      // Our flags include all flags of the release.
      const upstream = parse(await readFile(join(MODULE, 'extensions.controller.yaml'), 'utf8'))
      const container = (object: unknown) =>
        (object as { spec: { template: { spec: { containers: { args: string[] }[] } } } }).spec.template.spec
          .containers[0]
      expect(container(hardened(a, settings))?.args).toEqual(
        expect.arrayContaining(container(upstream)?.args ?? ['?']),
      )
    })

    const fromModule: typeof fetch = async (url) =>
      new Response(await readFile(join(MODULE, String(url).slice(CONTROLLER_SOURCE.length + 1))))

    test('is fetched into a folder of its version, from the network or a folder, and read from there', async () => {
      await using folder = await aFolder()
      const asked: string[] = []
      const get: typeof fetch = (url) => {
        asked.push(String(url))
        return fromModule(url)
      }

      await fetchRelease({ from: CONTROLLER_SOURCE, into: join(folder.path, 'a'), fetch: get })
      await fetchRelease({ from: join(folder.path, 'a'), into: join(folder.path, 'b') })

      expect(asked).toHaveLength(CONTROLLER_FILES.length)
      expect(asked.every((url) => url.includes(`/agent-sandbox/${CONTROLLER_VERSION}/k8s/`))).toBe(true)
      expect(await readRelease(join(folder.path, 'b'))).toEqual(await readRelease(MODULE))
    })

    test('is rejected if one byte of one file differs, when read and when fetched', async () => {
      await using folder = await aFolder()
      const copy = join(folder.path, 'copy')
      await fetchRelease({ from: MODULE, into: copy })
      await appendFile(join(copy, 'rbac.generated.yaml'), '#')

      const says =
        /rbac\.generated\.yaml of .* is not the file of agent-sandbox v[\s\S]*npm run controller -- fetch/
      await expect(readRelease(copy)).rejects.toThrow(says)
      await expect(fetchRelease({ from: copy, into: join(folder.path, 'other') })).rejects.toThrow(says)
      expect(existsSync(join(folder.path, 'other'))).toBe(false)
    })

    test('is stored by the command, which prints the folder', async () => {
      await using folder = await aFolder()
      const into = join(folder.path, 'files')

      const { status, stdout } = controller('fetch', '--from', MODULE, '--into', into, '--json')

      expect(status).toBe(0)
      expect(JSON.parse(stdout)).toMatchObject({ version: CONTROLLER_VERSION, folder: into })
      expect((await readRelease(into)).length).toBe(lockedObjects().length)
    })
  },
)

describe('a release that is missing or not the pinned one', () => {
  test('is rejected when downloaded, and no file is kept', async () => {
    await using folder = await aFolder()
    const get = async () => new Response('kind: ClusterRoleBinding')

    await expect(fetchRelease({ from: CONTROLLER_SOURCE, into: folder.path, fetch: get })).rejects.toThrow(
      /is not the file of agent-sandbox .*: its sha256 is/,
    )
    expect(await readdir(folder.path)).toEqual([])
  })

  test.each([
    ['returns 404', async () => new Response('', { status: 404 }), /answered 404\.[\s\S]*--from/],
    [
      'is not reached',
      () => Promise.reject(new TypeError('fetch failed', { cause: { code: 'ENOTFOUND' } })),
      /cannot be reached \(ENOTFOUND\)\.[\s\S]*npm run controller -- fetch --from/,
    ],
  ])('is reported with the next step when the network %s', async (_what, get, says) => {
    await using folder = await aFolder()

    await expect(fetchRelease({ from: CONTROLLER_SOURCE, into: folder.path, fetch: get })).rejects.toThrow(
      says,
    )
  })

  test('stops the program with a message that names the command and the setting, without a stack trace', async () => {
    const { config } = readStackText(readFileSync(join(ROOT, 'Pulumi.dev.yaml'), 'utf8'))
    const folder = { ...(config['agentweaver:controller'] as object), folder: '/nonexistent' }
    const run = runProgram({
      project: 'agentweaver',
      stack: 'dev',
      program: join(ROOT, 'infra'),
      config: { ...config, 'agentweaver:controller': folder },
    })

    const { message } = await run.then(
      () => new Error('it ran'),
      (error: Error) => error,
    )
    expect(message).toMatch(/controller v.* is not in \/nonexistent: .* is missing\.\n/)
    expect(message).toContain('npm run controller -- fetch')
    expect(message).toContain('agentweaver:controller, key folder')
    expect(message).not.toMatch(/^\s+at /m)
  })

  test.each([
    [['fetch', '--from', '/nonexistent'], 1, /cannot be read/],
    [['fetch', '--from', 'http://mirror.example'], 1, /is not https/],
    [[], 2, /the only command is fetch/],
    [['fetch', '--form', 'x'], 2, /Unknown option/],
  ])('%j ends with %i', (argv, status, says) => {
    expect(controller(...argv)).toMatchObject({ status, stderr: expect.stringMatching(says) })
  })
})

test('an object of the release carries the checksum of its file', () => {
  const files = new Set(CONTROLLER_FILES.map(({ sha256 }) => sha256))

  for (const { metadata } of lockedObjects()) {
    const annotations = metadata['annotations'] as Record<string, string>
    expect(files).toContain(annotations['agentweaver.io/release-file-sha256'])
  }
})

test('the controller runs as a non-root user, with limits and probes, in a namespace closed in both directions', () => {
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

  test('logs in non-interactively, with the Azure CLI login of the caller', () => {
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
  ])('is rejected with %s in it, which would end in the state', (_what, user) => {
    expect(() => parseKubeconfig(answered(user))).toThrow(/is not an Entra login/)
  })

  test.each(['', 'AAAA', Buffer.from('{}').toString('base64')])(
    'is rejected if it is not a kubeconfig: %j',
    (text) => {
      expect(() => parseKubeconfig(text)).toThrow()
    },
  )
})
