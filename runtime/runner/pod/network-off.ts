import { once } from 'node:events'
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { OfflineForm } from '../../../contracts/runner-env.ts'
import { SandboxError } from '../../kit/errors.ts'

/**
 * Throws if this process can reach more of the network than its form allows. Returns whether it has a loopback
 * interface.
 */
export async function proveNetworkOff(form: OfflineForm): Promise<{ hasLoopback: boolean }> {
  const canListen = await canListenOnLoopback()
  if (form === 'filter') {
    if (canListen) throw leak('it can create internet sockets')
    return { hasLoopback: false }
  }
  const outward = Object.entries(networkInterfaces()).filter(([, found]) =>
    found?.some(({ internal }) => !internal),
  )
  if (outward.length > 0) throw leak(`it has ${outward.map(([name]) => name).join(', ')}`)
  return { hasLoopback: canListen }
}

const leak = (how: string) =>
  new SandboxError('isolation_unavailable', `the offline runner is not offline: ${how}`)

async function canListenOnLoopback(): Promise<boolean> {
  const server = createServer()
  try {
    const listening = once(server, 'listening')
    server.listen(0, '127.0.0.1')
    await listening
    return true
  } catch {
    return false
  } finally {
    server.close()
  }
}
