import { ChildProcess } from 'node:child_process'
import type { CopilotClient } from '@github/copilot-sdk'
import { SandboxError } from '../../kit/errors.ts'

/**
 * Two things that the SDK keeps to itself and that a host cannot do without. They are seen as the client assigns
 * them, which is before the child has had a chance to die; a test fails when another version has them no more.
 *
 * The child: the SDK gives up on one that does not end, and does not tell of one that has.
 *
 * The writer: a request that is written to a dead child leaves a rejection that nobody can handle, in the RPC
 * library's own promise, and would take the host down. With write errors suppressed such a request stays
 * unanswered, so whoever sends one also watches `exited`.
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
      `the agent SDK has no "${property}": it is not the version that is known`,
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
