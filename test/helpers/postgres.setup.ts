import type { TestProject } from 'vitest/node'
import { type PostgresServer, startPostgres } from '../../devcluster/service/postgres-server.ts'
import { messageOf } from '../../runtime/kit/errors.ts'
import { serveOnce } from './made-once.ts'

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
  const { port, close } = await serveOnce(async (): Promise<PostgresOffer> => {
    server = startPostgres()
    return server.then(
      ({ url }) => ({ url }),
      (error) => ({ unavailable: messageOf(error) }),
    )
  })
  project.provide('postgresBroker', port)

  return async () => {
    close()
    await server?.then(
      (running) => running.stop(),
      () => undefined,
    )
  }
}
