import { onTestFinished } from 'vitest'
import * as z from 'zod'
import { silentLog } from '../../../runtime/kit/log.ts'
import { createKubeApi } from '../../../runtime/sandboxes/kubernetes/client/kube-api.ts'
import type { KubeConnection } from '../../../runtime/sandboxes/kubernetes/client/kube-connection.ts'
import { Metadata } from '../../../runtime/sandboxes/kubernetes/client/kube-object.ts'
import type { Resource } from '../../../runtime/sandboxes/kubernetes/client/resource.ts'
import { SharedWatch, type WatchTiming } from '../../../runtime/sandboxes/kubernetes/client/shared-watch.ts'
import type { TransportOptions } from '../../../runtime/sandboxes/kubernetes/client/transport.ts'
import { startFakeKubeApi } from '../../fakes/kube-api.ts'
import { until } from '../../helpers/until.ts'

export const NAMESPACE = 'sandboxes'
export const THINGS: Resource = { apiVersion: 'example.com/v1', plural: 'things', namespace: NAMESPACE }
export const THINGS_PATH = `/apis/example.com/v1/namespaces/${NAMESPACE}/things`

/** For servers that always respond. The long timeout prevents a second attempt on a slow machine. */
export const QUICK_TRANSPORT: TransportOptions = {
  attemptTimeoutMs: 60_000,
  backOff: { baseMs: 5, maxMs: 40 },
}
/** For servers that may not respond. */
export const IMPATIENT_TRANSPORT: TransportOptions = { ...QUICK_TRANSPORT, attemptTimeoutMs: 2_000 }
export const QUICK_WATCH: WatchTiming = {
  timeoutSeconds: 60,
  silenceMs: 30_000,
  backOff: { baseMs: 2, maxMs: 40 },
}

export const Thing = z.object({ metadata: Metadata, data: z.string().optional() })
export type Thing = z.infer<typeof Thing>

export const aThing = (name: string, data = '') => ({ metadata: { name, namespace: NAMESPACE }, data })

export const plainConnection = (server: string): KubeConnection => ({
  server,
  tls: {},
  authenticate: async () => ({}),
})

/** Starts a fake API server and a client for it. */
export async function startKubeRig(transport = QUICK_TRANSPORT) {
  const fake = await startFakeKubeApi()
  const api = createKubeApi(plainConnection(fake.url), transport)
  onTestFinished(async () => {
    await api.close()
    await fake.close()
  })
  const rig = {
    fake,
    api,
    put: (name: string, data = '') => fake.store.put(THINGS_PATH, aThing(name, data)),
    /** Returns a watch that has completed its list request and has an open stream. */
    async openWatch(timing: Partial<WatchTiming> = {}) {
      const watch = await rig.watch(timing)
      await until('the stream is open', () => fake.watches.count > 0)
      return watch
    },
    async watch(timing: Partial<WatchTiming> = {}, signal = AbortSignal.timeout(60_000)) {
      const watch = new SharedWatch({
        api,
        resource: THINGS,
        parse: (value) => Thing.parse(value),
        log: silentLog,
        timing: { ...QUICK_WATCH, ...timing },
      })
      onTestFinished(() => watch.close())
      await watch.start(signal)
      return watch
    },
  }
  return rig
}
