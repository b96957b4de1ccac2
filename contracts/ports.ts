export const API_PORT = 8080
export const AGENT_HOST_PORT = 8088
export const METRICS_PORT = 9090
export const EGRESS_PROXY_PORT = 3128
/** Health and metrics of the egress proxy. */
export const EGRESS_HEALTH_PORT = 8081
/** Health of the process that inserts credentials, in the pod of the egress proxy. */
export const EGRESS_CREDENTIALS_HEALTH_PORT = 8083
/** Port of the API for replicas of the egress proxy. Network policies open it to no other pod. */
export const EGRESS_CONTROL_PORT = 8082
/** Ports of a sandbox that a preview may open. */
export const PREVIEW_PORTS = { min: 3000, max: 9000, except: [AGENT_HOST_PORT] } as const
