import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { EgressState } from '../../contracts/egress.ts'
import { createAuthority, issueCertificate } from '../../devcluster/pki/certificate.ts'
import { IntermediateAuthorities } from '../../runtime/egress-ca/intermediate.ts'
import { deriveRoot } from '../../runtime/egress-ca/root.ts'
import { startSubject } from './process.ts'

export const NAME = 'source.agentweaver-bench.com'
const SERVER = fileURLToPath(new URL('../../runtime/egress/server.ts', import.meta.url))
const subject = (file: string) => fileURLToPath(new URL(file, import.meta.url))

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

interface Options {
  readonly sandboxes?: number
  readonly extraPort?: number
  /** The TLS server: a program, whose first arguments are the port and the folder of its certificate. */
  readonly source?: { readonly program: URL; readonly args: readonly string[] }
}

const BYTES = { program: new URL('tls-source.mjs', import.meta.url), args: [] }

/**
 * The real process of the proxy, a plain pipe, and a TLS server, each in a process. `sockets` are the proxy's sockets for
 * as many sandboxes; the last one's entry is terminated.
 */
export async function startEgress({ sandboxes = 1, extraPort = 0, source: server = BYTES }: Options = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'aw-egress-bench-'))
  const authority = createAuthority('bench')
  const { certificate, key } = issueCertificate(authority, {
    subject: { commonName: NAME },
    usage: 'server',
    names: [NAME, 'localhost'],
  })
  writeFileSync(join(folder, 'server.crt'), certificate)
  writeFileSync(join(folder, 'server.key'), key)
  writeFileSync(join(folder, 'roots.crt'), authority.certificate)
  const port = await freePort()
  const program = fileURLToPath(server.program)
  const source = await startSubject([program, String(port), folder, ...server.args])
  const pipePath = join(folder, 'pipe')
  const pipe = await startSubject([subject('pipe-proxy.mjs'), pipePath, String(extraPort || port)])
  const root = deriveRoot(randomBytes(32))
  const intermediate = new IntermediateAuthorities(root).for([NAME])
  const sockets = Array.from({ length: sandboxes + 1 }, (_, index) => join(folder, `socket-${index}`))
  const state: EgressState = {
    revision: 1,
    authorities: [intermediate],
    generations: sockets.map((socketPath, index) => ({
      runId: `run-${index}`,
      generation: 1,
      phase: 'work',
      socketPath,
      destinations: [
        {
          host: NAME,
          ports: [port, ...(extraPort ? [extraPort] : [])],
          methods: 'any',
          phases: ['work'],
          caller: 'any',
          addresses: ['127.0.0.1'],
          ...(index === sandboxes && { authority: intermediate.digest, allow: ['encoded-slash'] }),
        },
      ],
    })),
  }
  const [publicRootFile, rootFile] = [join(folder, 'roots.crt'), join(folder, 'proxy-root.crt')]
  writeFileSync(rootFile, root.certificate)
  const proxy = await startProxy(state, publicRootFile)
  return {
    proxy,
    pipe,
    pipePath,
    sockets,
    port,
    root: root.certificate,
    rootFile,
    publicRoot: authority.certificate,
    publicRootFile,
    async [Symbol.asyncDispose]() {
      await Promise.all([proxy.stop(), pipe.stop(), source.stop()])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** The process responds only after it has a state. */
async function startProxy(state: EgressState, roots: string) {
  const child = spawn(process.execPath, [SERVER], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { NODE_EXTRA_CA_CERTS: roots },
  })
  child.stdin.write(`${JSON.stringify(state)}\n`)
  await once(child.stdout, 'data')
  child.stdout.resume()
  const stop = async () => {
    child.stdin.end()
    await once(child, 'exit')
  }
  return { pid: child.pid ?? 0, stop }
}

/** A socket of the proxy after CONNECT. */
export async function openTunnel(path: string, port: number): Promise<Socket> {
  const socket = connect(path)
  socket.on('error', () => undefined)
  socket.write(`CONNECT ${NAME}:${port} HTTP/1.1\r\nHost: ${NAME}:${port}\r\n\r\n`)
  const [answer] = (await once(socket, 'data')) as [Buffer]
  if (!answer.toString().startsWith('HTTP/1.1 200')) throw new Error(answer.toString())
  return socket
}
