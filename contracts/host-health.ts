import * as z from 'zod'
import { HostState } from './configure.ts'
import { Isolation } from './exec.ts'

/** The answer of `GET /healthz`; how commands are isolated is known as soon as the runners are connected. */
export const HostHealth = z.object({ state: HostState, isolation: Isolation.optional() })
export type HostHealth = z.infer<typeof HostHealth>
