import * as z from 'zod'
import { HostState } from './configure.ts'
import { Isolation } from './exec.ts'

/** Body of `GET /healthz`. `isolation` is set once the runners are connected. */
export const HostHealth = z.object({ state: HostState, isolation: Isolation.optional() })
export type HostHealth = z.infer<typeof HostHealth>
