import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Agent, fetch as send } from 'undici'
import { ISSUER_PLACE } from './git-outside-main.ts'

/** An address of this machine that only the issuer of this test uses. */
const HERE = '127.0.0.77'

const FORWARD = `const s = require('node:net').connect(443, '${ISSUER_PLACE.address}'); process.stdin.pipe(s); s.pipe(process.stdout)
  for (const e of [s, process.stdout]) e.on('error', () => process.exit()); s.on('close', () => process.exit())`

/** Leads the people of a team on this machine to the issuer in the network outside the cluster. */
export async function openWayToIssuer(pid: number, root: string) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-team-outside-'))
  const files = { hosts: join(folder, 'hosts'), root: join(folder, 'root.pem') }
  writeFileSync(files.hosts, `127.0.0.1 localhost\n${HERE} ${ISSUER_PLACE.host}\n`)
  writeFileSync(files.root, root)
  const [program = '', ...argv] = ['nsenter', '-t', String(pid), '-n', '--', process.execPath, '-e', FORWARD]
  const server = createServer((socket) => {
    const child = spawn(program, argv, { stdio: ['pipe', 'pipe', 'inherit'] })
    socket.pipe(child.stdin)
    child.stdout.pipe(socket)
    for (const end of [socket, child.stdin, child.stdout]) end.on('error', () => child.kill())
    socket.on('close', () => child.kill())
  })
  server.listen(443, HERE)
  await once(server, 'listening')
  const agent = new Agent({
    connect: { ca: root, lookup: (_host, _options, done) => done(null, [{ address: HERE, family: 4 }]) },
  })
  const fetchPage = (input: unknown, init: object | undefined): Promise<unknown> =>
    send(input as string, { ...init, dispatcher: agent })
  return {
    hosts: files.hosts,
    env: { NODE_EXTRA_CA_CERTS: files.root },
    fetch: fetchPage as typeof fetch,
    async close() {
      await agent.destroy()
      server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
