import { FINAL_STATES, type Run } from '../../contracts/api.ts'
import type { Client } from '../../runtime/client/client.ts'
import { delay } from '../../runtime/kit/deadline.ts'
import { CliError } from '../cli-error.ts'
import { EXIT } from '../exit-status.ts'

const READY_TIMEOUT_MS = 120_000
const POLL_MS = 50

/** Waits until the sandbox accepts commands. Throws the sandbox's failure. */
export async function untilReady(client: Client, id: string): Promise<Run> {
  const until = Date.now() + READY_TIMEOUT_MS
  while (Date.now() < until) {
    const sandbox = await client.readSandbox(id)
    if (sandbox.state === 'waiting' || sandbox.state === 'running') return sandbox
    if (FINAL_STATES.some((state) => state === sandbox.state)) {
      const why = sandbox.failure?.message ?? `it is ${sandbox.state}`
      throw new CliError(`The sandbox did not start: ${why}`, { status: EXIT.runFailed })
    }
    await delay(POLL_MS)
  }
  throw new CliError(`The sandbox ${id} is still not ready.`, {
    status: EXIT.runFailed,
    hint: `See its state with "agentweaver show ${id}". Remove it with "agentweaver sandbox rm ${id}".`,
  })
}
