import { onTestFinished } from 'vitest'
import { type AppOptions, buildApp } from '../../runtime/api/app.ts'
import { generateApiKey } from '../../runtime/api/http/api-key.ts'
import { createKeyService } from '../../runtime/api/people/api-keys.ts'
import { createLog } from '../../runtime/kit/log.ts'
import { ownCredentials } from '../helpers/own-credentials.ts'
import { MemoryService } from './memory-service.ts'
import { MemoryStore } from './memory-store.ts'

/** The real app over an in-memory service, with three keys. Closed after the test. */
export function startApp(options: Partial<AppOptions> = {}) {
  const service = new MemoryService()
  const store = new MemoryStore()
  const lines: string[] = []
  const now = options.now ?? (() => new Date('2026-01-01T00:00:00.000Z'))
  // `inject` sends the first address; a test can add a proxy's address.
  const allowedHosts = ['localhost:80']
  const app = buildApp({
    service,
    store,
    userCredentials: ownCredentials({ store, now }).service,
    keys: createKeyService({ store, audit: { append: async () => undefined }, now }),
    log: createLog({ level: 'debug', write: (line) => lines.push(line) }),
    now,
    rateLimitPerMinute: 10_000,
    allowedHosts,
    streams: { perKey: 100, inAll: 100 },
    started: Promise.resolve(),
    ...options,
  })
  onTestFinished(() => app.close())
  const keys = {
    ada: store.addKey(generateApiKey(), 'ada'),
    bob: store.addKey(generateApiKey(), 'bob'),
    operator: store.addKey(generateApiKey(), 'local', 'operator'),
  }
  return { app, service, store, lines, keys, allowedHosts }
}

export type Harness = ReturnType<typeof startApp>

export const bearer = (key: string) => ({ authorization: `Bearer ${key}` })

/** Listens on a free port of this machine. */
export async function listen({ app }: Pick<Harness, 'app'>): Promise<string> {
  return app.listen({ host: '127.0.0.1', port: 0 })
}

export const RUN = { task: 'fix it', workspace: { kind: 'empty' }, agent: { kind: 'copilot' } } as const
