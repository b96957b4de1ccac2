import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import type { StartRun } from '../../contracts/api.ts'
import { builder, clients, demandingServer } from '../egress/client-certificate-rig.ts'
import { authority, HOST } from '../egress/proxy-rig.ts'
import { GitServer } from '../fakes/git-server.ts'
import { RUNS_PUSH } from './git-rig.ts'
import { alice, aRun, dataOf, follow, shell, startService } from './service-rig.ts'

/** A service whose egress list has a host that demands a client certificate, which only the service can read. */
async function aPlace(port: number, limits = 'mode: read-only, paths: [/v1/**]') {
  const folder = mkdtempSync(join(tmpdir(), 'aw-run-client-certificate-'))
  const entry = `{ host: ${HOST}, ports: [${port}], ${limits}, credential: corp, addresses: [127.0.0.1], why: a service of the test }`
  const files = {
    'egress.yaml': `apiVersion: agentweaver.io/v1\nkind: EgressPolicy\nname: test\nclasses:\n  agent: [${entry}]\n  command: []\n`,
    'credentials.yaml':
      'apiVersion: agentweaver.io/v1\nkind: Credentials\ncredentials: [{ id: corp, kind: client-certificate, file: corp.pem }]\n',
    'ceiling.yml': RUNS_PUSH,
    'roots.pem': authority.certificate,
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  writeFileSync(join(folder, 'corp.pem'), builder.pem, { mode: 0o600 })
  const started = await startService({
    AGENTWEAVER_EGRESS_FILE: join(folder, 'egress.yaml'),
    AGENTWEAVER_EGRESS_ROOTS_FILE: join(folder, 'roots.pem'),
    AGENTWEAVER_CREDENTIALS_FILE: join(folder, 'credentials.yaml'),
    AGENTWEAVER_CEILING_FILE: join(folder, 'ceiling.yml'),
    AGENTWEAVER_LOCAL_WARM: '0',
  })
  onTestFinished(async () => {
    await started.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const run = async (command: string, change: Partial<Pick<StartRun, 'workspace'>> = {}) => {
    const plan = aRun(started.aWorkspace(), [shell(command)])
    const asked = { ...plan, policy: { network_enabled: true }, ...change }
    const { id } = await started.service.startRun(alice, asked)
    return { id, events: await follow(started.service, id) }
  }
  return { ...started, run }
}

/** A line of the key in two parts, so that no process has all of it in its arguments. The file shows that the search finds it. */
const LINE = builder.key.split('\n')[1] ?? ''
const SEARCH = `printf '%s%s' '${LINE.slice(0, 20)}' '${LINE.slice(20)}' > /tmp/control; grep -rlaF -f /tmp/control . /tmp /home /root /etc /run /agentweaver /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null`

it('lets a command use a service that demands a client certificate, whose key is nowhere in the sandbox', async () => {
  const { port, seen } = await demandingServer()
  const { run, store } = await aPlace(port)
  const url = `https://${HOST}:${port}`

  const { id, events } = await run(
    `curl -sS ${url}/v1/a; echo; curl -sS ${url}/v2/a; echo; ${SEARCH}; env | grep -c CORP; true`,
  )

  const [result = ''] = dataOf(events, 'tool.result').map((data) => JSON.stringify(data))
  expect(result).toContain('hello builder\\n')
  expect(result).toContain('GET is not allowed for the path /v2/a')
  expect(result).toContain('\\n/tmp/control\\n0\\n')
  expect(seen).toMatchObject({ connections: 1, subjects: ['builder'] })
  expect(dataOf(events, 'egress.credential_used')).toEqual([{ credentialId: 'corp', host: HOST, count: 1 }])
  // Otherwise the redactor would have hidden it.
  expect(JSON.stringify(events)).not.toContain('REDACTED')
  expect(JSON.stringify(await store.readAudit({ runId: id, limit: 100 }))).not.toContain(LINE)
})

it('redacts the key in the events of a run, and not the certificate', async () => {
  const { port } = await demandingServer()
  const { run } = await aPlace(port)
  const certificateLine = builder.certificate.split('\n')[3] ?? ''

  const { events } = await run(
    `printf '%s%s\\n' '${LINE.slice(0, 20)}' '${LINE.slice(20)}'; echo '-----BEGIN CERTIFICATE-----'; echo ${certificateLine}`,
  )

  const [result = ''] = dataOf(events, 'tool.result').map((data) => JSON.stringify(data))
  expect(result).toContain('REDACTED')
  expect(result).not.toContain(LINE)
  expect(result).toContain(`-----BEGIN CERTIFICATE-----\\n${certificateLine}`)
})

it('clones a repository of a server that demands a client certificate, and pushes the branches of the run', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-git-client-certificate-'))
  const demanding = { ...authority.serverFor(HOST), requestCert: true, ca: clients.certificate }
  // Without a token: the client certificate is all that the server wants.
  const server = new GitServer(folder, { authority: { serverFor: () => demanding }, host: HOST, token: '' })
  await server.open('team/app')
  onTestFinished(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const { run } = await aPlace(server.port, 'preset: git, mode: full, repositories: [team/app]')
  const workspace = { kind: 'git', url: `${server.url}/team/app.git` } as const
  const push = (ref: string) => `git push -q origin "HEAD:refs/heads/${ref}" 2>&1; echo "exit $?"`

  const { id, events } = await run(
    `cat README; git commit -q --allow-empty -m work; ${push('${AGENTWEAVER_BRANCH_PREFIX}fix')}; ${push('main')}`,
    { workspace },
  )

  const [result = ''] = dataOf(events, 'tool.result').map((data) => JSON.stringify(data))
  expect(result).toMatch(/from team\/app\\nexit 0\\n.*The push is refused: .*exit 1/)
  expect(server.refs('team/app')).toEqual([`refs/heads/agentweaver/${id}/fix`, 'refs/heads/main'])
})
