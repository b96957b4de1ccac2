import * as z from 'zod'

/** A backend that runs commands. */
export const BackendName = z.enum(['linux-bwrap', 'linux-namespaces', 'kubernetes-sandbox-claim', 'direct'])
export type BackendName = z.infer<typeof BackendName>
