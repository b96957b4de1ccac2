import { ChildProcess } from 'node:child_process'
import type { CopilotClient } from '@github/copilot-sdk'
import { SandboxError } from '../../kit/errors.ts'

/**
 * Two private fields of the SDK's client that a host needs. They are intercepted on assignment, which is before the child
 * can exit. A test fails if a new version of the SDK lacks them.
 *
 * The child process: the SDK neither kills a child that does not end, nor reports one that has ended.
 *
 * The writer: a request to a dead child causes an unhandled rejection inside the RPC library, which would end the host.
 * With `suppressWriteErrors`, such a request never settles, so callers also wait for the child's exit.
 */
export function watchInternals(client: CopilotClient): { readonly spawned: Promise<ChildProcess> } {
  const spawned = Promise.withResolvers<ChildProcess>()
  onAssigned(client, 'cliProcess', (child) => {
    if (child instanceof ChildProcess) spawned.resolve(child)
  })
  onAssigned(client, 'messageWriter', (writer) => {
    if (writer instanceof Object) Reflect.set(writer, 'suppressWriteErrors', true)
  })
  return { spawned: spawned.promise }
}

function onAssigned(client: CopilotClient, property: string, seen: (value: unknown) => void): void {
  if (!Object.hasOwn(client, property)) {
    throw new SandboxError(
      'internal',
      `the agent SDK has no field "${property}": use the version that this project pins`,
    )
  }
  let current: unknown = Reflect.get(client, property)
  Object.defineProperty(client, property, {
    configurable: true,
    enumerable: true,
    get: () => current,
    set: (value: unknown) => {
      current = value
      seen(value)
    },
  })
}
