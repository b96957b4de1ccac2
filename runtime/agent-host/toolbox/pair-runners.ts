import { SandboxError } from '../../kit/errors.ts'
import type { RunnerLink } from './runner-link.ts'

/**
 * Combines the two runners of a pod. A command goes to the runner with or without network, as the request says; files and
 * archives go to the runner without network. If one runner is lost, both are closed.
 */
export function pairRunners(links: readonly RunnerLink[]): RunnerLink {
  const [offline, online] = (['offline', 'online'] as const).map((role) =>
    links.find((link) => link.role === role),
  )
  if (!offline || !online || links.length !== 2) {
    const found = links.map(({ role }) => role).join(' and ')
    throw new SandboxError(
      'isolation_unavailable',
      `a pod has one offline and one online runner, not ${found}`,
    )
  }
  const close = async () => {
    await Promise.all([offline.close(), online.close()])
  }
  const closed = Promise.race(
    [offline, online].map((link) => link.closed.then((why) => `${link.role}: ${why}`)),
  )
  void closed.then(close)
  return {
    role: 'per-command',
    isolation: offline.isolation,
    pathEngine: offline.pathEngine,
    warnings: offline.warnings,
    closed,
    close,
    open: async (root, folder) => {
      await Promise.all([offline.open(root, folder), online.open(root, folder)])
    },
    // Only the runner with network has a relay.
    giveEgress: (access) => online.giveEgress(access),
    exec: (request, io) => (request.network ? online : offline).exec(request, io),
    freeze: async (isFrozen) => {
      await Promise.all([offline.freeze(isFrozen), online.freeze(isFrozen)])
    },
    // Each runner counts the files of both, so both report the same levels.
    onUsage: (listener) => {
      for (const link of [offline, online]) link.onUsage(listener)
    },
    file: offline.file,
    tarIn: offline.tarIn,
    tarOut: offline.tarOut,
    manifest: offline.manifest,
    pack: offline.pack,
  }
}
