import { AlreadyConfigured, ConfigureReply } from '../../contracts/configure.ts'
import { AGENT_HOST_ROUTES, TAR_MEDIA_TYPE } from '../../contracts/routes.ts'
import { SandboxError } from '../kit/errors.ts'
import { type AgentHostConnection, answerOf, faultOf } from './connection.ts'

export type Configuration = {
  readonly runId: string
  readonly generation: number
  /** The ticket and the exact bytes that it covers. */
  readonly ticket: string
  readonly body: Uint8Array
  /** The announced session, sent while the setup waits for it. */
  readonly session?: Uint8Array
  readonly signal: AbortSignal
}

/**
 * Configures a sandbox, once. A 409 with this run and generation means that an earlier request succeeded and its
 * response was lost; a 409 with another run is `identity_mismatch`. A credential failure has its own error code.
 */
export async function configureAgentHost(connection: AgentHostConnection, configuration: Configuration) {
  const configured = postConfigure(connection, configuration)
  configured.catch(() => undefined)
  if (configuration.session) await putSession(connection, configuration.session, configuration.signal)
  await configured
}

async function postConfigure(connection: AgentHostConnection, { runId, generation, ...rest }: Configuration) {
  const response = await connection.request(AGENT_HOST_ROUTES.configure, {
    method: 'POST',
    headers: { authorization: `Bearer ${rest.ticket}`, 'content-type': 'application/json' },
    body: rest.body,
    signal: rest.signal,
  })
  if (response.ok) {
    await answerOf(response, ConfigureReply)
    return
  }
  if (response.status !== 409) {
    const fault = await faultOf(response)
    if (fault.code.startsWith('credential_') || fault.code === 'sandbox_lost') throw fault
    throw new SandboxError('configure_rejected', `the sandbox refused its configuration: ${fault.message}`, {
      cause: fault,
    })
  }
  const held = await answerOf(response, AlreadyConfigured)
  if (held.runId !== runId || held.generation !== generation) {
    throw new SandboxError(
      'identity_mismatch',
      `the sandbox is already configured for ${held.runId ?? 'another run'}`,
    )
  }
  if (held.state !== 'ready') throw new SandboxError('configure_rejected', `the sandbox is ${held.state}`)
}

/** Sends the session; the one shot may not be taken yet when it arrives, so `not_configured` is tried again. */
async function putSession(
  connection: AgentHostConnection,
  session: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  while (true) {
    const response = await connection.request(AGENT_HOST_ROUTES.session, {
      method: 'PUT',
      headers: { 'content-type': TAR_MEDIA_TYPE },
      body: session,
      signal,
    })
    if (response.ok) return
    const fault = await faultOf(response)
    if (fault.code !== 'not_configured') throw fault
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}
