import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import { type Bench, type Figure, figure } from './harness.ts'
import { NAME, openTunnel, startEgress } from './subjects/egress-proxy.ts'
import { cpuMs, residentBytes } from './subjects/process.ts'

const BULK_BYTES = 128 * 1024 ** 2
const ROUNDS = 3
const IDLE_TUNNELS = 5000
const PER_SANDBOX = 500
const PINGS = 500
const GIB = 1024 ** 3

/** The egress proxy: processor time of its two modes, memory of idle tunnels, and added latency. */
export const bench: Bench = {
  name: 'egress',
  run: async (): Promise<readonly Figure[]> => [...(await bulk()), ...(await manyTunnels())],
}

/** The ClientHello of Node, which a client of TLS writes first. */
const clientHello = new Promise<Buffer>((resolve) => {
  const socket = new Duplex({ read: () => undefined, write: (chunk: Buffer) => resolve(chunk) })
  connectTls({ socket, servername: NAME })
})

/** As much of a ServerHello as the proxy reads: record, message, version, and a random of zeros. */
const SERVER_HELLO = Buffer.concat([Buffer.from([22, 3, 3, 0, 60, 2, 0, 0, 56, 3, 3]), Buffer.alloc(54)])

type Egress = Awaited<ReturnType<typeof startEgress>>

/** Downloads over TLS through a socket, and returns the processor time of the proxy for one GiB. */
async function download({ port }: Egress, pid: number, { socket, ca }: { socket: Socket; ca: string }) {
  const before = cpuMs(pid)
  const tls = connectTls({ socket, servername: NAME, ca })
  await once(tls, 'secureConnect')
  tls.write(`GET /${BULK_BYTES} HTTP/1.1\r\nHost: ${NAME}:${port}\r\nConnection: close\r\n\r\n`)
  let got = 0
  for await (const chunk of tls) got += (chunk as Buffer).length
  if (got < BULK_BYTES) throw new Error(`the download ended after ${got} bytes`)
  return ((cpuMs(pid) - before) * GIB) / BULK_BYTES
}

async function bulk(): Promise<Figure[]> {
  await using egress = await startEgress()
  const { proxy, pipe, pipePath, sockets, port, root, publicRoot } = egress
  const [spliced = '', terminated = ''] = sockets
  const samples = { pipe: [] as number[], splice: [] as number[], terminate: [] as number[] }
  for (let round = 0; round <= ROUNDS; round += 1) {
    const ofPipe = await download(egress, pipe.pid, { socket: connect(pipePath), ca: publicRoot })
    const ofSplice = await download(egress, proxy.pid, {
      socket: await openTunnel(spliced, port),
      ca: publicRoot,
    })
    const ofTerminate = await download(egress, proxy.pid, {
      socket: await openTunnel(terminated, port),
      ca: root,
    })
    // The first round meets code that has not run before.
    if (round === 0) continue
    samples.pipe.push(ofPipe)
    samples.splice.push(ofSplice)
    samples.terminate.push(ofTerminate)
  }
  return [
    figure({
      name: 'download of 1 GiB, spliced, compared with a plain pipe: processor time',
      unit: 'ms',
      bar: 1.8,
      samples: { baseline: samples.pipe, value: samples.splice },
    }),
    figure({
      name: 'the same terminated, compared with spliced',
      unit: 'ms',
      bar: 2.6,
      samples: { baseline: samples.splice, value: samples.terminate },
    }),
  ]
}

/** A server that replies to the first bytes with a ServerHello, and echoes all others. */
async function echoServer() {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', () => {
      socket.write(SERVER_HELLO)
      socket.pipe(socket)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, close: () => server.close() }
}

async function manyTunnels(): Promise<Figure[]> {
  const echo = await echoServer()
  await using egress = await startEgress({ sandboxes: IDLE_TUNNELS / PER_SANDBOX, extraPort: echo.port })
  const { proxy, pipePath, sockets } = egress
  const empty = residentBytes(proxy.pid)
  const tunnels: Socket[] = []
  const fill = async (path: string) => {
    for (let at = 0; at < PER_SANDBOX; at += 50)
      tunnels.push(
        ...(await Promise.all(Array.from({ length: 50 }, () => shaken(openTunnel(path, echo.port))))),
      )
  }
  await fill(sockets[0] ?? '')
  const measured = await shaken(openTunnel(sockets[1] ?? '', echo.port))
  const direct = await shaken(Promise.resolve(connect(pipePath)))
  const samples = { baseline: [] as number[], value: [] as number[] }
  for (let index = 0; index < PINGS; index += 1) {
    samples.baseline.push(await ping(direct))
    samples.value.push(await ping(measured))
  }
  for (const path of sockets.slice(1, -1)) await fill(path)
  const full = residentBytes(proxy.pid)
  for (const socket of [...tunnels, measured, direct]) socket.destroy()
  echo.close()
  const latency = { unit: 'ms', measure: 'added', samples } as const
  return [
    figure({
      ...latency,
      name: 'round trip at 500 open tunnels, compared with a pipe, p50',
      bar: 1,
    }),
    figure({ ...latency, name: 'the same, p99', percentile: 99, bar: 8 }),
    figure({
      name: `memory of the proxy with ${IDLE_TUNNELS} idle tunnels (baseline: without)`,
      unit: 'bytes',
      measure: 'absolute',
      bar: 220e6,
      samples: { baseline: [empty], value: [full] },
    }),
  ]
}

/** After the exchange of the hellos. */
async function shaken(opening: Promise<Socket>): Promise<Socket> {
  const socket = await opening
  socket.on('error', () => undefined)
  socket.write(await clientHello)
  await once(socket, 'data')
  return socket
}

/** One record of application data, and its echo. */
async function ping(socket: Socket): Promise<number> {
  const startedAt = performance.now()
  socket.write(Buffer.from([23, 3, 3, 0, 1, 0]))
  await once(socket, 'data')
  return performance.now() - startedAt
}
