import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, it, onTestFinished } from 'vitest'
import { followControlStream } from '../../runtime/egress/cluster/control-stream.ts'
import { createLog } from '../../runtime/kit/log.ts'
import { until } from '../helpers/until.ts'

/** Listens, and never accepts a connection. With a full queue, the kernel drops the first packet of each further one. */
const DEAF = `
  const { parentPort } = require('node:worker_threads')
  const server = require('node:net').createServer()
  server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
    parentPort.postMessage(server.address().port)
    setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))
  })`

/** A port of a host that does not answer, as behind a network that drops packets. */
async function deafPort(): Promise<number> {
  const worker = new Worker(DEAF, { eval: true })
  onTestFinished(() => void worker.terminate())
  const [port] = (await once(worker, 'message')) as [number]
  // A queue of 1 holds two connections.
  for (let filled = 0; filled < 2; filled += 1) {
    const socket = connect(port, '127.0.0.1')
    onTestFinished(() => void socket.destroy())
    await once(socket, 'connect')
  }
  return port
}

it('tries again if the API does not even accept the connection', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'aw-control-stream-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, 'a-token\n')
  const lines: string[] = []
  const stream = followControlStream({
    ...{ url: `http://127.0.0.1:${await deafPort()}`, tokenFile, proxy: randomUUID(), silenceMs: 100 },
    onMessage: async () => undefined,
    onReconnect: () => undefined,
    log: createLog({ level: 'debug', write: (line) => void lines.push(line) }),
  })
  onTestFinished(() => stream.close())

  await until('the second attempt has failed too', () => lines.length >= 2)

  for (const line of lines) expect(line).toContain('the API does not answer')
})
