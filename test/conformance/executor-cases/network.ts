import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Subject } from './subject.ts'

/** A program for the sandbox that connects and reports the result. */
const connect = (to: string) =>
  `node -e 'require("net").connect(${to}).on("connect", () => { console.log("connected"); process.exit() }).on("error", (e) => { console.log(e.code); process.exit(1) })'`

export function networkCases(subject: Subject): void {
  const { isolation, ownRoot, ownNetwork } = subject.supports

  describe.skipIf(!isolation)('network', () => {
    it('does not reach a listener on the same machine when it is off', async () => {
      const outcome = await subject.run(connect(String(subject.site.port)))
      const control = subject.isLocal
        ? await subject.runUnisolated(connect(String(subject.site.port)))
        : await subject.run(connect(String(subject.site.port)), { network: true })

      expect(outcome.stdout).toBe(ownNetwork ? 'ECONNREFUSED\n' : 'EAFNOSUPPORT\n')
      expect(control.stdout).toBe('connected\n')
    })

    it.skipIf(!ownNetwork)('has a private loopback interface', async () => {
      const outcome = await subject.run(
        `node -e 'const s = require("net").createServer((c) => c.end("own")).listen(0, "127.0.0.1", () => require("net").connect(s.address().port).on("data", (d) => { console.log(String(d)); process.exit() }))'`,
      )

      expect(outcome.stdout).toBe('own\n')
    })

    it.skipIf(!ownNetwork)('has no other interface and no route when it is off', async () => {
      const outcome = await subject.run('grep -c : /proc/net/dev; tail -n +2 /proc/net/route')

      expect(outcome.stdout).toBe('1\n')
    })

    it.skipIf(ownNetwork)('allows only Unix sockets when it is off', async () => {
      const families = [2, 10, 16, 17, 40].map((family) => `attempt(${family})`).join('; ')
      const script = `import socket
def attempt(family):
    try: socket.socket(family, socket.SOCK_DGRAM); print("made", family)
    except OSError as error: print(error.errno)
attempt(1); ${families}`

      const outcome = await subject.run('python3 -', { stdin: Buffer.from(script) })

      expect(outcome.stdout.trim().split('\n')).toEqual(['made 1', '97', '97', '97', '97', '97'])
    })

    it('reports whether an allowlist restricts commands with network access', () => {
      expect(subject.executor.isolation.enforcesEgress).toBe(subject.supports.enforcesEgress)
    })
  })

  describe.skipIf(!ownRoot)("the host's network", () => {
    let abstract: Server
    const name = `agentweaver-test-${process.pid}`

    beforeAll(async () => {
      abstract = createServer((socket) => socket.end()).listen(`\0${name}`)
      await once(abstract, 'listening')
    })
    afterAll(() => abstract.close())

    it('does not expose its abstract sockets when the network is off', async () => {
      const to = `"\\u0000${name}"`

      const outcome = await subject.run(connect(to))
      const control = await subject.runUnisolated(connect(to))

      expect(outcome.stdout).toBe('ECONNREFUSED\n')
      expect(control.stdout).toBe('connected\n')
    })

    it('does not expose its resolver', async () => {
      const outcome = await subject.run('wc -c < /etc/resolv.conf')
      const control = await subject.runUnisolated('wc -c < /etc/resolv.conf')

      expect(outcome.stdout.trim()).toBe('0')
      expect(Number(control.stdout)).toBeGreaterThan(0)
    })

    it('is not used by a command with network access if there is no egress proxy', async () => {
      const outcome = await subject.run('echo ran', { network: true })

      expect(outcome).toMatchObject({ reason: 'spawn_failed', stdout: '' })
      expect(outcome.message).toContain('no egress proxy')
    })
  })
}
