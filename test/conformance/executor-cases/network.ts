import { once } from 'node:events'
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Subject } from './subject.ts'

/** A program for the sandbox: connects and says so. */
const connect = (to: string) =>
  `node -e 'require("net").connect(${to}).on("connect", () => { console.log("connected"); process.exit() }).on("error", (e) => { console.log(e.code); process.exit(1) })'`

export function networkCases(subject: Subject): void {
  describe.skipIf(!subject.supports.isolation)('network', () => {
    let server: Server
    let abstract: Server
    const name = `agentweaver-test-${process.pid}`
    const port = () => (server.address() as { port: number }).port

    beforeAll(async () => {
      server = createServer((socket) => socket.end()).listen(0, '127.0.0.1')
      abstract = createServer((socket) => socket.end()).listen(`\0${name}`)
      await Promise.all([once(server, 'listening'), once(abstract, 'listening')])
    })
    afterAll(() => {
      server.close()
      abstract.close()
    })

    it('does not reach a listener of the host when the network is off', async () => {
      const outcome = await subject.run(connect(String(port())))
      const control = await subject.runUnisolated(connect(String(port())))

      expect(outcome.stdout).toBe('ECONNREFUSED\n')
      expect(control.stdout).toBe('connected\n')
    })

    it('does not reach an abstract socket of the host when the network is off', async () => {
      const to = `"\\u0000${name}"`

      const outcome = await subject.run(connect(to))
      const control = await subject.runUnisolated(connect(to))

      expect(outcome.stdout).toBe('ECONNREFUSED\n')
      expect(control.stdout).toBe('connected\n')
    })

    it('has a loopback of its own', async () => {
      const outcome = await subject.run(
        `node -e 'const s = require("net").createServer((c) => c.end("own")).listen(0, "127.0.0.1", () => require("net").connect(s.address().port).on("data", (d) => { console.log(String(d)); process.exit() }))'`,
      )

      expect(outcome.stdout).toBe('own\n')
    })

    it('has no other interface and no route when the network is off', async () => {
      const outcome = await subject.run('grep -c : /proc/net/dev; tail -n +2 /proc/net/route')

      expect(outcome.stdout).toBe('1\n')
    })

    it('reaches the host when the network is on, as its isolation says', async () => {
      const outcome = await subject.run(connect(String(port())), { network: true })

      expect(outcome.stdout).toBe('connected\n')
      expect(subject.executor.isolation.enforcesEgress).toBe(false)
    })

    it('finds the resolver of the host only when the network is on', async () => {
      const on = await subject.run('wc -c < /etc/resolv.conf', { network: true })
      const off = await subject.run('wc -c < /etc/resolv.conf')

      expect(off.stdout.trim()).toBe('0')
      expect(Number(on.stdout)).toBeGreaterThan(0)
    })
  })
}
