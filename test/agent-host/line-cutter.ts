import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { AgentHostAddress } from '../../runtime/agent-host-client/connection.ts'
import type { ConnectionGuard } from '../../runtime/agent-host-client/connection-guard.ts'
import type { HostUnderTest } from '../conformance/agent-host-cases/host.ts'

export interface Line {
  /** The address of the proxy in front of AgentHost. For a TCP port it includes a guard that counts new connections. */
  readonly address: AgentHostAddress
  readonly state: {
    /** Number of new connections that the guard has checked. */
    verified: number
    /** If set, the guard rejects new connections with this error. */
    refusal: Error | undefined
  }
  /** Closes every connection, like a network failure. */
  cut(): void
}

/** Starts a proxy to AgentHost whose connections can be cut. It uses the same kind of address as AgentHost. */
export async function startLine(host: HostUnderTest): Promise<Line> {
  const sockets = new Set<Socket>()
  const server = createServer(async (near) => {
    near.on('error', () => undefined)
    sockets.add(near)
    const far = await host.connect()
    near.pipe(far).pipe(near)
    near.on('close', () => {
      sockets.delete(near)
      far.destroy()
    })
    far.on('close', () => near.destroy())
  })
  const folder = mkdtempSync(join(tmpdir(), 'aw-line-'))
  const isSocket = 'socketPath' in host.address
  const socketPath = join(folder, 'line.sock')
  server.listen(isSocket ? { path: socketPath } : { host: '127.0.0.1', port: 0 })
  await once(server, 'listening')
  const cut = () => {
    for (const socket of sockets) {
      if (isSocket) socket.destroy()
      else socket.resetAndDestroy()
    }
  }
  onTestFinished(() => {
    cut()
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const state: Line['state'] = { verified: 0, refusal: undefined }
  const guard: ConnectionGuard = {
    verify: async () => {
      state.verified += 1
      if (state.refusal) throw state.refusal
    },
  }
  const { port } = isSocket ? { port: 0 } : (server.address() as AddressInfo)
  return {
    address: isSocket ? { socketPath } : { baseUrl: `http://127.0.0.1:${port}`, guard },
    state,
    cut,
  }
}
