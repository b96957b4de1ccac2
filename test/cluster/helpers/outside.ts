import { type Daemon, startDaemon } from '../../../devcluster/host/daemon.ts'
import { runCommand } from '../../../devcluster/host/run-command.ts'
import { logPath } from '../../../devcluster/host/run-folder.ts'
import { waitUntil } from '../../../devcluster/host/wait-until.ts'
import { openOutside } from '../../../devcluster/service/outside-network.ts'

/** Addresses with listeners on ports 80 and 8080, for which the cluster's resolver has names. */
export const OUTSIDE = {
  allowed: '198.51.100.10',
  other: '198.51.100.20',
  wild: '198.51.100.30',
  metadata: '169.254.169.254',
} as const

const SERVER = `
  const answer = (q, a) => a.end('outside')
  for (const port of [80, 8080]) require('node:http').createServer(answer).listen(port, '0.0.0.0')`
const READY_MS = 10_000

/** Simulates the internet with the addresses of `OUTSIDE`. */
export async function startOutside(folder: string): Promise<{ stop(): Promise<void> }> {
  const network = await openOutside(folder, {
    link: 'outside',
    hostByte: 2,
    addresses: Object.values(OUTSIDE),
    ranges: ['198.51.100.0/24', '169.254.169.254/32'],
  })
  const server = await startServer(network.pid, logPath(folder, 'outside'))
  return {
    async stop() {
      await server.stop(0)
      await network.stop()
    },
  }
}

async function startServer(pid: number, log: string): Promise<Daemon> {
  const inside = ['nsenter', '-t', String(pid), '-n', '--']
  const server = startDaemon({
    name: 'outside server',
    argv: [...inside, process.execPath, '-e', SERVER],
    logPath: log,
  })
  const ask = `fetch('http://127.0.0.1').then(() => process.exit(0), () => process.exit(1))`
  await waitUntil(
    { what: 'the outside to answer', timeoutMs: READY_MS, needs: [server], everyMs: 100 },
    async () => {
      await runCommand([...inside, process.execPath, '-e', ask])
      return true
    },
  )
  return server
}
