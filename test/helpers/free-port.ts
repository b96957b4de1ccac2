import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Returns a free port below the kernel's ephemeral range (`ip_local_port_range`), so that no other test's server or
 * connection takes it before the server of this test starts.
 */
export async function freePort(host: string): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 30_000)
    const server = createServer().listen(port, host)
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    await new Promise((resolve) => server.close(resolve))
    if (isFree) return port
  }
}
