import * as z from 'zod'

/** What can isolate a command. */
export const BackendName = z.enum([
  'processcontainer',
  'wsl-bwrap',
  'wsl-unshare',
  'linux-bwrap',
  'linux-namespaces',
  'macos-seatbelt',
  'lxc-native-linux',
  'kubernetes-sandbox-claim',
  'direct',
])
export type BackendName = z.infer<typeof BackendName>
