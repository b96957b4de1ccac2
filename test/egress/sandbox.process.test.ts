import { once } from 'node:events'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttps } from 'node:https'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EgressReport } from '../../contracts/egress.ts'
import { EgressProxy } from '../../runtime/egress/proxy.ts'
import type { Executor } from '../../runtime/executors/executor.ts'
import { silentLog } from '../../runtime/kit/log.ts'
import { execute, NODE_ROOT } from '../conformance/executor-cases/subject.ts'
import { createTestAuthority } from '../fakes/test-authority.ts'
import { ISOLATING_BACKENDS } from '../helpers/isolating-backends.ts'
import { HOST, OTHER } from './proxy-rig.ts'

const authority = createTestAuthority()
const portOf = (server: Server) => (server.address() as AddressInfo).port

/** A machine with a proxy, a TLS server that one sandbox may reach, and things that no sandbox may reach. */
class Machine {
  readonly folder = realpathSync(mkdtempSync(join(tmpdir(), 'aw-egress-sandbox-')))
  readonly reports: EgressReport[] = []
  readonly proxy = new EgressProxy({ report: (report) => this.reports.push(report) })
  readonly https = createHttps(authority.serverFor(HOST, OTHER), (request, response) =>
    response.end(`got ${request.url}`),
  )
  readonly plain = createServer((socket) => socket.end('reached'))
  readonly abstract = createServer((socket) => socket.end('reached'))
  readonly abstractName = `agentweaver-egress-${process.pid}`

  async open(): Promise<void> {
    this.https.listen(0, '127.0.0.1')
    this.plain.listen(0, '127.0.0.1')
    this.abstract.listen(`\0${this.abstractName}`)
    await Promise.all([this.https, this.plain, this.abstract].map((server) => once(server, 'listening')))
    for (const name of ['own', 'other']) mkdirSync(join(this.folder, name, 'egress'), { recursive: true })
    mkdirSync(join(this.folder, 'own/workspace'))
    writeFileSync(join(this.folder, 'own/workspace/ca.crt'), authority.certificate)
    await this.apply()
  }

  apply(ports = [portOf(this.https)]): Promise<void> {
    const generations = ['own', 'other'].map((runId) => ({
      runId,
      generation: 1,
      phase: 'work' as const,
      socketPath: join(this.folder, runId, 'egress/socket'),
      destinations: [
        {
          host: HOST,
          ports,
          methods: 'any' as const,
          phases: ['work' as const],
          caller: 'any' as const,
          addresses: ['127.0.0.1'],
        },
      ],
    }))
    return this.proxy.apply({ revision: 1, generations })
  }

  async close(): Promise<void> {
    this.proxy.close()
    for (const server of [this.https, this.plain, this.abstract]) server.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

describe.each(ISOLATING_BACKENDS)('a command with network access in $name', async (backend) => {
  const detection = await backend.detect({ toolRoots: [NODE_ROOT] })
  const machine = new Machine()
  let executor: Executor
  const run = (command: string) => execute(executor, command, { network: true })
  /** A program that connects and prints its input, or the error. */
  const reach = (to: string) =>
    run(
      `node -e 'require("net").connect(${to}).on("data", (d) => console.log(String(d))).on("error", (e) => console.log(e.code))'`,
    )

  beforeAll(async () => {
    await machine.open()
    executor = await backend.create({
      workspace: join(machine.folder, 'own/workspace'),
      toolRoots: [NODE_ROOT],
      egressFolder: join(machine.folder, 'own/egress'),
      log: silentLog,
    })
  })
  afterAll(async () => {
    await executor?.close()
    await machine.close()
  })

  describe.skipIf(!detection.ok)(detection.ok ? 'here' : `skipped: ${detection.reason}`, () => {
    const url = () => `https://${HOST}:${portOf(machine.https)}`

    it('reaches a listed host', async () => {
      const outcome = await run(`curl -sS --cacert ca.crt ${url()}/a`)

      expect(outcome).toMatchObject({ exitCode: 0, stdout: 'got /a', stderr: '' })
    })

    it('reads why a host is refused in its standard error, once', async () => {
      const outcome = await run(`curl -s https://${OTHER}/; curl -s https://${OTHER}/; echo done`)

      expect(outcome.stdout).toBe('done\n')
      expect(outcome.stderr).toMatch(
        /^agentweaver: Connection to other\.agentweaver-test\.com:443 refused: [^\n]*\n$/,
      )
    })

    it('has the relay before its first instruction, and no other socket listens', async () => {
      const outcome = await run(`awk 'NR > 1 && $4 == "0A" { print $2 }' /proc/net/tcp /proc/net/tcp6`)

      expect(outcome.stdout).toBe('0100007F:0C38\n')
    })

    it('has no interface but loopback, and no resolver', async () => {
      const outcome = await run(
        'grep -c : /proc/net/dev; tail -n +2 /proc/net/route; wc -c < /etc/resolv.conf',
      )

      expect(outcome.stdout).toBe('1\n0\n')
    })

    it('does not reach services of the machine, by address or through the proxy', async () => {
      const port = portOf(machine.plain)
      const direct = await reach(`${port}, "127.0.0.1"`)
      const proxied = await run(
        `curl -sS --noproxy '' -p http://127.0.0.1:${port}/; curl -sS --noproxy '' http://localhost:${port}/`,
      )
      const control = connect(port, '127.0.0.1')
      const [answer] = await once(control, 'data')

      expect(String(answer)).toBe('reached')
      expect(direct.stdout).toBe('ECONNREFUSED\n')
      expect(proxied.stdout).not.toContain('reached')
      expect(proxied.stderr).toContain('Connection to 127.0.0.1')
    })

    it('does not reach an abstract Unix socket of the machine', async () => {
      const outcome = await reach(`"\\u0000${machine.abstractName}"`)
      const control = connect(`\0${machine.abstractName}`)
      const [answer] = await once(control, 'data')

      expect(String(answer)).toBe('reached')
      expect(outcome.stdout).toBe('ECONNREFUSED\n')
    })

    it('sees no socket of another sandbox, and none through the processes', async () => {
      const other = join(machine.folder, 'other/egress/socket')
      const outcome = await run(
        `ls /agentweaver/egress; ls ${machine.folder} 2>&1; for p in /proc/[0-9]*; do ls -d $p/root${machine.folder} 2>/dev/null; done; true`,
      )
      const control = connect(other)
      await once(control, 'connect')
      control.destroy()

      expect(outcome.stdout).toMatch(/^socket\nls: cannot access/)
      expect(outcome.stdout).not.toContain('/root/')
    })

    it('cannot replace the socket of its sandbox', async () => {
      const outcome = await run(
        'rm -f /agentweaver/egress/socket; mv /agentweaver/egress /tmp/x; touch /agentweaver/y',
      )

      expect(outcome.exitCode).not.toBe(0)
      expect((await run(`curl -sS --cacert ca.crt ${url()}/b`)).stdout).toBe('got /b')
    })

    it('gets no wider access by using the socket directly, or by replacing the relay', async () => {
      const outcome = await run(
        `pkill -f '^/agentweaver/node'; curl -sS -x http://127.0.0.1:3128 ${url()}/; ` +
          `node -e 'const s = require("net").connect("/agentweaver/egress/socket"); s.write("CONNECT 127.0.0.1:22 HTTP/1.1\\r\\n\\r\\n"); s.on("data", (d) => console.log(String(d).slice(0, 12)))'`,
      )

      expect(outcome.stdout).toBe('HTTP/1.1 403\n')
    })

    it('keeps its standard output and exit code', async () => {
      const outcome = await run('echo out; exit 7')

      expect(outcome).toMatchObject({ stdout: 'out\n', stderr: '', exitCode: 7 })
    })

    it('has no relay without network access', async () => {
      const outcome = await execute(
        executor,
        'env | grep -ci proxy; ls /agentweaver/egress; cat /proc/net/tcp | wc -l',
      )

      expect(outcome.stdout).toBe('0\n1\n')
    })

    it('reaches nothing while the proxy is not running, and the proxy again when it is', async () => {
      await machine.proxy.apply({ revision: 2, generations: [] })
      const without = await run(`curl -sS --cacert ca.crt ${url()}/c`)
      await machine.apply()
      const again = await run(`curl -sS --cacert ca.crt ${url()}/c`)

      expect(without.stdout).toBe('')
      expect(without.stderr).toContain('agentweaver: The egress proxy of this sandbox is not running')
      expect(again.stdout).toBe('got /c')
    })
  })
})
