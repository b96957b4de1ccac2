/** Users of a sandbox pod: two, so that what the agent runs can read nothing of who holds the credential. */
export const POD_USERS = { agentHost: 1001, toolbox: 1000, group: 1000 } as const

/**
 * Name of the abstract Unix socket on which AgentHost awaits its runners (without the NUL in front of it). Abstract,
 * because a socket file of one container is not there for another under gVisor.
 */
export const RUNNER_SOCKET = 'agentweaver-runner'

/** How long one container waits for the other: the image of the second may have to be pulled first. */
export const POD_START_LIMIT_MS = 600_000

/** Where the projected token of `GET /identity` is, in `agent-host` alone. */
export const IDENTITY_TOKEN = {
  mountPath: '/var/run/secrets/agentweaver/identity',
  file: 'token',
  lifetimeSeconds: 600,
} as const

/** Home folders: beside the workspace and `/tmp` the only writable places. */
export const POD_HOMES = { agentHost: '/home/agent-host', toolbox: '/home/sandbox' } as const
