import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EgressReport } from '../../contracts/egress.ts'
import { allowlist } from '../../policies/agent/egress/allowlist.ts'
import { loadEgressPolicy } from '../../policies/agent/egress/load.ts'
import { resolveEgress } from '../../policies/agent/egress/resolve.ts'
import { withAuthorities } from '../../runtime/api/egress/authorities.ts'
import { createTrust, writeTrustBundle } from '../../runtime/api/egress/trust.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'
import { parseUpstreamProxy } from '../../runtime/egress/upstream-proxy.ts'
import type { Backend, Executor } from '../../runtime/executors/executor.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { execute, type Outcome } from '../conformance/executor-cases/subject.ts'
import { startNameProxy } from '../fakes/name-proxy.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import type { Client } from './client-table.ts'
import { GITHUB_API, PackageSite } from './package-site.ts'

/** Prints the status of a request, and the certificate's issuer on standard error. */
const GET_JAVA = `class Get {
  public static void main(String[] args) throws Exception {
    var connection = (java.net.HttpURLConnection) new java.net.URL(args[0]).openConnection();
    System.out.println(connection.getResponseCode());
    if (connection.getResponseCode() >= 400) System.err.println(connection.getResponseMessage());
  }
}
`

/** The presets of public registries, for the sites of the test. */
function policyFor(site: PackageSite): string {
  const at = `ports: [${site.port}], addresses: [127.0.0.1], why: a site of the test`
  const presets = (['npm', 'pypi', 'crates', 'go', 'debian'] as const).map(
    (preset) => `{ preset: ${preset}, host: ${site.host(preset)}, ${at} }`,
  )
  const git = `{ host: ${site.host('git')}, mode: full, ${at}, requests: [{ methods: [GET], paths: [/repo.git/**] }, { methods: [POST], paths: [/repo.git/git-upload-pack] }] }`
  const spliced = `{ host: ${site.host('spliced')}, mode: full, ${at} }`
  const maven = `{ host: ${site.host('maven')}, mode: read-only, paths: ["/maven2/**"], ${at} }`
  const github = '{ preset: github, repositories: [o/n], mode: full, why: a repository of the test }'
  const entries = [...presets, git, spliced, maven, github].map((entry) => `    - ${entry}\n`).join('')
  return `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent:\n${entries}  command: []\n`
}

export interface ClientSuite {
  readonly clients: readonly Client[]
  /** Folders with programs that commands see. */
  readonly toolRoots: readonly string[]
  /** Replaces `TOOLS` in the commands. */
  readonly tools?: string
  /** More tests with the same proxy. */
  readonly more?: (parts: {
    run: (command: string) => Promise<Outcome>
    runAlone: (command: string) => Promise<Outcome>
    site: PackageSite
  }) => void
}

/** Real programs in one backend, through a proxy that terminates TLS for the sites of the test. */
export async function clientSuite(backend: Backend, { clients, toolRoots, tools = '', more }: ClientSuite) {
  const detection = await backend.detect({ toolRoots })
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-egress-clients-')))
  const project = join(folder, 'project')
  const authority = createTestAuthority()
  for (const name of ['project', 'site', 'egress']) mkdirSync(join(folder, name))
  writeFileSync(join(folder, 'roots.pem'), authority.certificate)
  const site = new PackageSite(join(folder, 'site'), authority)
  const reports: EgressReport[] = []
  let proxy: EgressProxy
  let company: Awaited<ReturnType<typeof startNameProxy>>
  let executor: Executor
  const run = (command: string) => execute(executor, command, { network: true })
  const has = async (test: string) => (await execute(executor, test)).exitCode === 0
  const filled = (command: string, name: Parameters<PackageSite['url']>[0]) =>
    command
      .replaceAll('TOOLS', tools)
      .replaceAll('UNLISTED', site.url('unlisted'))
      .replaceAll('URL', site.url(name))

  beforeAll(async () => {
    await site.open(project)
    // GitHub has no address in the list. The proxy of a company leads to the site of the test.
    company = await startNameProxy(new Map([[GITHUB_API, site.port]]))
    proxy = new EgressProxy({
      report: (report) => reports.push(report),
      roots: [authority.certificate],
      upstream: parseUpstreamProxy(company.url),
    })
    writeFileSync(join(project, 'Get.java'), GET_JAVA)
    const trust = await createTrust(new Uint8Array(32).fill(3), join(folder, 'roots.pem'))
    await writeTrustBundle(join(folder, 'egress'), trust)
    const destinations = allowlist(resolveEgress(loadEgressPolicy(policyFor(site)), {}), 'agent', 'laptop')
    const place = {
      runId: 'run',
      generation: 1,
      phase: 'work',
      socketPath: join(folder, 'egress/socket'),
    } as const
    const state = { revision: 1, generations: [{ ...place, destinations }] }
    await proxy.apply(withAuthorities(state, trust.authorities))
    executor = await backend.create({
      workspace: project,
      toolRoots,
      egressFolder: join(folder, 'egress'),
      log: silentLog,
    })
  })
  afterAll(async () => {
    await executor?.close()
    proxy?.close()
    await company?.close()
    site.close()
    rmSync(folder, { recursive: true, force: true })
  })

  describe.skipIf(!detection.ok)(detection.ok ? 'here' : `skipped: ${detection.reason}`, () => {
    it.for(clients)(
      '$name reads what its entry allows, and gets the reason for a refusal',
      async (client, { skip }) => {
        if (!(await has(filled(client.test, client.site)))) skip('this machine does not have it')

        const read = await run(filled(client.reads, client.site))
        const before = site.requests.length
        const written = await run(filled(client.writes, client.site))

        expect(read.stderr).toBe('')
        expect(read.stdout.trim()).toBe(client.expected)
        expect(`${written.stdout}${written.stderr}`).toMatch(client.refusal)
        expect(site.requests.slice(before).filter((request) => !client.permitted.test(request))).toEqual([])
      },
    )
    more?.({ run, runAlone: (command) => execute(executor, command), site })
  })
}
