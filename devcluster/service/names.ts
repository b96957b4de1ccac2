/** Names of the objects in the tree of `environments/local.json`. */
export const CONTROL_PLANE = 'agentweaver'
export const SANDBOXES = 'agentweaver-sandboxes'
/** The `Host` that clients of the Gateway send. */
export const PUBLIC_NAME = 'api.local.agentweaver.example'
export const API_DATABASE_ROLE = 'agentweaver-api'
