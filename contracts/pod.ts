/** A sandbox pod has two users, so that agent commands cannot read the files of the process with the credential. */
export const POD_USERS = { agentHost: 1001, toolbox: 1000, group: 1000 } as const

/**
 * Abstract Unix socket (without its leading NUL) on which AgentHost waits for runners. It is abstract because under
 * gVisor a socket file of one container is not visible in another.
 */
export const RUNNER_SOCKET = 'agentweaver-runner'

/** How long one container waits for the other. Long, because the other container's image may still be pulled. */
export const POD_START_LIMIT_MS = 600_000

/** Projected token for `GET /identity`. Only the container `agent-host` has it. */
export const IDENTITY_TOKEN = {
  mountPath: '/var/run/secrets/agentweaver/identity',
  file: 'token',
  lifetimeSeconds: 600,
} as const

/** Home folders. Apart from the workspace and `/tmp`, they are the only writable places. */
export const POD_HOMES = { agentHost: '/home/agent-host', toolbox: '/home/sandbox' } as const
