import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import { setEgress } from '../charts/fixture.ts'
import { aFolder, runCli } from '../cli/run-cli.ts'
import { describeWith } from './helpers/features.ts'
import { OUTSIDE, startOutside } from './helpers/outside.ts'
import { useServiceSpace } from './helpers/service-space.ts'

const ROOT = join(import.meta.dirname, '../..')
const SLOW_MS = 240_000
const ALLOWED = 'allowed.example.com'
type Verified = { check: string; state: string; detail: string; measured?: unknown }

describeWith(['cilium', 'agent-sandbox', 'cluster DNS', 'gvisor'], 'agentweaver verify', () => {
  const space = useServiceSpace({ runtimeClass: 'gvisor', replicas: { agent: 1, command: 2 } })
  let outside: { stop(): Promise<void> }

  beforeAll(async () => {
    outside = await startOutside(inject('cluster').folder)
  })
  afterAll(() => outside.stop())

  const run = verifierOf(space)
  const detailOf = (checks: readonly Verified[], id: string) =>
    checks.find(({ check }) => check === id)?.detail ?? ''

  const told = (checks: readonly Verified[]) =>
    checks.map(({ check, state, detail }) => `${check}: ${state}: ${detail}`).join('\n')

  it('reports every missing restriction', { timeout: SLOW_MS }, async () => {
    await space.waitForPool('agent')

    const { status, states, checks } = await run(() => undefined, '--only', 'fences,names,kernel')

    expect(status).toBe(1)
    expect(states, told(checks)).toEqual({ kernel: 'pass', fences: 'fail', names: 'fail' })
    expect(detailOf(checks, 'fences')).toContain('169.254.169.254:80')
    expect(detailOf(checks, 'fences')).toMatch(/10\.\d+\.\d+\.\d+:443/)
    expect(detailOf(checks, 'names')).toContain(`${OUTSIDE.other}:80 is not allowed, but reachable`)
  })

  it('passes valid checks, and reports the checks that it could not run', { timeout: SLOW_MS }, async () => {
    await space.kube().create(fence(space.namespace))
    await space.waitForPool('command')

    const { status, states, checks } = await run(() => undefined)

    expect(status, told(checks)).toBe(0)
    expect(states).toEqual({
      pools: 'not run',
      capacity: 'pass',
      taints: 'not run',
      kernel: 'pass',
      fences: 'pass',
      names: 'pass',
      accounts: 'pass',
      identity: 'not run',
      warm: 'pass',
    })
    expect(detailOf(checks, 'taints')).toContain('only kata')
    await space.nothingLeft()
  })

  it('does not treat silence as a fence: without a reachable control nothing is proven', {
    timeout: SLOW_MS,
  }, async () => {
    await space.waitForPool('command')

    const { status, states, checks } = await run(
      () => undefined,
      '--only',
      'fences',
      '--allowed',
      `${OUTSIDE.wild}:81`,
    )

    expect({ status, states }, told(checks)).toEqual({ status: 1, states: { fences: 'not run' } })
  })

  it('fails when a node has too few resources, and when a sandbox account has permissions', {
    timeout: SLOW_MS,
  }, async () => {
    await space.kube().create({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: 'too-much', namespace: space.namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'view' },
      subjects: [
        {
          kind: 'Group',
          apiGroup: 'rbac.authorization.k8s.io',
          name: `system:serviceaccounts:${space.namespace}`,
        },
      ],
    } as never)

    const { status, states, checks } = await run(
      (environment) => Object.assign(environment['infra']?.['sandboxNodes'] ?? {}, { memoryMib: 9_000_000 }),
      ...['--only', 'capacity,accounts'],
    )

    expect({ status, states }).toEqual({ status: 1, states: { capacity: 'fail', accounts: 'fail' } })
    expect(detailOf(checks, 'accounts')).toMatch(/may get configmaps/)
  })
})

/** Egress policy of a sandbox: DNS lookups and one listed name. */
const fence = (namespace: string) =>
  ({
    apiVersion: 'cilium.io/v2',
    kind: 'CiliumNetworkPolicy',
    metadata: { name: 'fence', namespace },
    spec: {
      endpointSelector: {},
      egress: [
        {
          toEndpoints: [
            { matchLabels: { 'k8s:io.kubernetes.pod.namespace': 'kube-system', 'k8s:k8s-app': 'kube-dns' } },
          ],
          toPorts: [{ ports: [{ port: '53', protocol: 'ANY' }], rules: { dns: [{ matchPattern: '*' }] } }],
        },
        { toFQDNs: [{ matchName: ALLOWED }], toPorts: [{ ports: [{ port: '80', protocol: 'TCP' }] }] },
      ],
    },
  }) as never

/** Runs the verify command with this slice's environment file, and returns the result of each check. */
const verifierOf =
  (space: ReturnType<typeof useServiceSpace>) =>
  async (alter: (environment: Record<string, Record<string, object>>) => void, ...more: string[]) => {
    const cwd = await aFolder('aw-verify-')
    const environment = JSON.parse(readFileSync(join(ROOT, 'environments/pr-example.json'), 'utf8'))
    environment.slice.slug = space.namespace.replace(/^aw-pr-/, '').replace(/-sandboxes$/, '')
    environment.isolation = 'gvisor'
    // The policies of this suite permit names. The proxy has its own suite.
    setEgress(environment, { mode: 'fqdn' })
    environment.sizes.sandboxes.overhead = { cpuMillis: 0, memoryMib: 0 }
    environment.infra.sandboxNodes = {
      ...environment.infra.sandboxNodes,
      ...{ min: 1, max: 4, cpuMillis: 500, memoryMib: 512, ephemeralMib: 512, pods: 20 },
      daemons: { cpuMillis: 0, memoryMib: 0, pods: 0 },
    }
    alter(environment)
    mkdirSync(join(cwd, 'environments'))
    writeFileSync(join(cwd, 'environments/pr-example.json'), JSON.stringify(environment))
    const { kubeconfig, binFolders } = inject('cluster')
    const { status, stdout, stderr } = await runCli(
      [
        'verify',
        ...[
          '--env',
          'pr-example',
          '--json',
          '--allowed',
          `${ALLOWED}:80`,
          '--unlisted',
          `${OUTSIDE.other}:80`,
        ],
        ...['--claims', '2', '--warm-ms', '60000', ...more],
      ],
      {
        cwd,
        withinMs: SLOW_MS - 10_000,
        env: {
          PATH: [...binFolders, dirname(process.execPath), process.env['PATH']].join(':'),
          KUBECONFIG: kubeconfig,
          AGENTWEAVER_URL: space.url(),
          AGENTWEAVER_API_KEY: space.apiKey(),
        },
      },
    )
    if (stdout === '') throw new Error(stderr)
    const checks: Verified[] = JSON.parse(stdout).checks
    return { status, states: Object.fromEntries(checks.map(({ check, state }) => [check, state])), checks }
  }

describeWith(
  ['cilium', 'agent-sandbox', 'cluster DNS', 'gvisor'],
  'agentweaver verify, if commands may be online',
  () => {
    const space = useServiceSpace({
      runtimeClass: 'gvisor',
      replicas: { agent: 1, command: 0 },
      ceiling: { network_enabled: true },
    })
    let outside: { stop(): Promise<void> }

    beforeAll(async () => {
      outside = await startOutside(inject('cluster').folder)
    })
    afterAll(() => outside.stop())

    it('gives the same result through the service', { timeout: SLOW_MS }, async () => {
      await space.waitForPool('agent')

      const { states, checks } = await verifierOf(space)(() => undefined, '--only', 'fences,names')

      expect(states).toEqual({ fences: 'fail', names: 'fail' })
      expect(checks.map(({ detail }) => detail).join()).toContain(
        `${OUTSIDE.other}:80 is not allowed, but reachable`,
      )
      await space.nothingLeft()
    })
  },
)
