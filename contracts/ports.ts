export const API_PORT = 8080
export const AGENT_HOST_PORT = 8088
export const METRICS_PORT = 9090
export const EGRESS_PROXY_PORT = 3128
/** Ports of a sandbox that a preview may open. */
export const PREVIEW_PORTS = { min: 3000, max: 9000, except: [AGENT_HOST_PORT] } as const
