import { type AddressInfo, createServer } from 'node:net'
import type { TestProject } from 'vitest/node'
import { type PostgresServer, startPostgres } from '../../devcluster/service/postgres-server.ts'
import { messageOf } from '../../runtime/kit/errors.ts'

/** The broker's offer to a test file that requests PostgreSQL. */
export type PostgresOffer = { readonly url: string } | { readonly unavailable: string }

declare module 'vitest' {
  interface ProvidedContext {
    /** Loopback port on which test files request the PostgreSQL server of this run. */
    postgresBroker: number
  }
}

/**
 * Shares one PostgreSQL server between all test files of a run. The first request starts it, so a run without such a
 * file only opens a socket.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  let server: Promise<PostgresServer> | undefined
  const broker = createServer((socket) => {
    socket.on('error', () => undefined)
    server ??= startPostgres()
    void server.then(
      ({ url }) => socket.end(JSON.stringify({ url } satisfies PostgresOffer)),
      (error) => socket.end(JSON.stringify({ unavailable: messageOf(error) } satisfies PostgresOffer)),
    )
  })
  await new Promise<void>((resolve) => broker.listen(0, '127.0.0.1', resolve))
  broker.unref()
  project.provide('postgresBroker', (broker.address() as AddressInfo).port)

  return async () => {
    broker.close()
    await server?.then(
      (running) => running.stop(),
      () => undefined,
    )
  }
}
