import * as z from 'zod'

/** What can isolate a command. */
export const BackendName = z.enum(['linux-bwrap', 'linux-namespaces', 'kubernetes-sandbox-claim', 'direct'])
export type BackendName = z.infer<typeof BackendName>
