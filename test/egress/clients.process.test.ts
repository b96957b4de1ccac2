import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EgressReport } from '../../contracts/egress.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'
import { bwrapBackend } from '../../runtime/executors/bwrap.ts'
import type { Backend, Executor } from '../../runtime/executors/executor.ts'
import { namespacesBackend } from '../../runtime/executors/namespaces.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { execute, NODE_ROOT } from '../conformance/executor-cases/subject.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { PackageSite } from './package-site.ts'
import { HOST } from './proxy-rig.ts'

const BACKENDS: readonly Backend[] = [bwrapBackend, namespacesBackend]

describe.each(BACKENDS)('real programs in $name, over HTTPS through the proxy', async (backend) => {
  const detection = await backend.detect({ toolRoots: [NODE_ROOT] })
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-egress-clients-')))
  const project = join(folder, 'project')
  const authority = createTestAuthority()
  for (const name of ['project', 'site', 'egress']) mkdirSync(join(folder, name))
  const site = new PackageSite(join(folder, 'site'), authority)
  const reports: EgressReport[] = []
  const proxy = new EgressProxy({ report: (report) => reports.push(report) })
  let executor: Executor
  const run = (command: string) => execute(executor, command, { network: true })
  const has = async (test: string) => (await execute(executor, test)).exitCode === 0

  const allow = (revision: number, host: string) =>
    proxy.apply({
      revision,
      generations: [
        {
          runId: 'run',
          generation: 1,
          phase: 'work',
          socketPath: join(folder, 'egress/socket'),
          destinations: [
            {
              host,
              ports: [site.port],
              methods: 'any',
              phases: ['work'],
              caller: 'any',
              addresses: ['127.0.0.1'],
            },
          ],
        },
      ],
    })

  beforeAll(async () => {
    await site.open(project)
    writeFileSync(join(project, 'ca.crt'), authority.certificate)
    await allow(1, HOST)
    executor = await backend.create({
      workspace: project,
      toolRoots: [NODE_ROOT],
      egressFolder: join(folder, 'egress'),
      log: silentLog,
    })
  })
  afterAll(async () => {
    await executor?.close()
    proxy.close()
    site.close()
    rmSync(folder, { recursive: true, force: true })
  })

  describe.skipIf(!detection.ok)(detection.ok ? 'here' : `skipped: ${detection.reason}`, () => {
    it.for([
      [
        'npm',
        'npm --version',
        'NODE_EXTRA_CA_CERTS=$PWD/ca.crt npm ci --silent && node -p "require(\'pkg-a\')"',
        '42',
      ],
      [
        'pip',
        '/usr/bin/python3 -m pip --version',
        `/usr/bin/python3 -m pip install -q --disable-pip-version-check --no-cache-dir --cert ca.crt --target py --index-url URL/simple/ pkg-b && PYTHONPATH=py /usr/bin/python3 -c 'import pkg_b; print(pkg_b.ANSWER)'`,
        '42',
      ],
      [
        'git',
        'git --version',
        'git -c http.sslCAInfo=$PWD/ca.crt clone -q URL/repo.git && cat repo/README',
        'from git',
      ],
      ['curl', 'curl --version', 'curl -sS --cacert ca.crt URL/repo.git/HEAD', 'ref: refs/heads/main'],
      [
        'wget',
        'wget --version',
        'wget -q --ca-certificate=ca.crt -O - URL/repo.git/HEAD',
        'ref: refs/heads/main',
      ],
      [
        'fetch of Node',
        'node --version',
        `NODE_EXTRA_CA_CERTS=$PWD/ca.crt node -e 'fetch("URL/repo.git/HEAD").then((r) => r.text()).then(console.log)'`,
        'ref: refs/heads/main',
      ],
      [
        'urllib of Python',
        '/usr/bin/python3 --version',
        `SSL_CERT_FILE=ca.crt /usr/bin/python3 -c 'import urllib.request; print(urllib.request.urlopen("URL/repo.git/HEAD").read().decode())'`,
        'ref: refs/heads/main',
      ],
    ] as const)('%s works', async ([_name, test, command, expected], { skip }) => {
      if (!(await has(test))) skip('this machine does not have it')

      const outcome = await run(command.replaceAll('URL', site.url))

      expect(outcome.stderr).toBe('')
      expect(outcome.stdout.trim()).toBe(expected)
    })

    it('npm ci fails without the destination, with a sentence that names it', async () => {
      await allow(2, `other-${HOST}`)

      const outcome = await run(
        'rm -rf node_modules; NODE_EXTRA_CA_CERTS=$PWD/ca.crt npm ci --silent --fetch-retries=0',
      )

      await allow(3, HOST)
      expect(outcome.exitCode).not.toBe(0)
      expect(outcome.stderr).toContain(`agentweaver: Connection to ${HOST}:${site.port} refused`)
    })
  })
})
