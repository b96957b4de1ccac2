import * as z from 'zod'

/**
 * The kinds of agents: the request of a caller, and the configuration of AgentHost. `runtime/agents` implements them;
 * its registry compiles only if it has every kind of this file.
 */
const Charter = z.string().max(65_536).optional()
const ModelName = z.string().min(1).max(256)
const ModelEndpoint = z.strictObject({
  name: ModelName,
  baseUrl: z.url(),
  /** The model server, if `baseUrl` is the egress proxy. The proxy accepts the token of `PUT /egress`. */
  server: z.url().optional(),
})
/** The proxy in `HTTPS_PROXY` of AgentHost accepts the token of `PUT /egress`, and no connection without it. */
const ProxyToken = z.literal('required').optional()

/** One step of a scripted agent. */
export const PlanStep = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('say'), text: z.string().min(1).max(65_536) }),
  z.strictObject({
    kind: z.literal('tool'),
    tool: z.string().min(1).max(128),
    arguments: z.record(z.string(), z.unknown()),
    /**
     * The turn fails if the call is refused or fails, or its command does not end with exit code 0.
     * @default the plan continues
     */
    required: z.literal(true).optional(),
  }),
  z.strictObject({ kind: z.literal('wait'), ms: z.int().min(0).max(600_000) }),
])
export type PlanStep = z.infer<typeof PlanStep>

/** A scripted agent's behaviour: the steps of each turn. Turns after the last one report that the plan has ended. */
export const Plan = z.strictObject({ turns: z.array(z.array(PlanStep).max(1000)).min(1).max(100) })
export type Plan = z.infer<typeof Plan>

/** The agent that a caller requests. The operator configures the model's endpoint; a caller cannot choose it. */
export const RequestedAgent = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('scripted'), plan: Plan }),
  z.strictObject({ kind: z.literal('copilot'), model: ModelName.optional(), charter: Charter }),
  z.strictObject({ kind: z.literal('openaiCompatible'), model: ModelName.optional(), charter: Charter }),
  z.strictObject({ kind: z.literal('foundry'), model: ModelName.optional(), charter: Charter }),
])
export type RequestedAgent = z.infer<typeof RequestedAgent>

export const REQUESTED_KINDS = RequestedAgent.options.map(({ shape }) => shape.kind.value)
export const RequestedKind = z.enum(REQUESTED_KINDS)
export type RequestedKind = z.infer<typeof RequestedKind>

/** The agent that AgentHost creates. A sandbox of kind `none` has no agent. */
export const AgentConfig = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  z.strictObject({ kind: z.literal('scripted'), plan: Plan }),
  z.strictObject({
    kind: z.literal('copilot'),
    model: ModelName,
    charter: Charter,
    proxyToken: ProxyToken,
    /** Certificate in PEM of the authority with which the egress proxy reads the requests of the agent. */
    proxyRoot: z.string().max(8192).optional(),
  }),
  z.strictObject({ kind: z.literal('openaiCompatible'), model: ModelEndpoint, charter: Charter }),
  z.strictObject({
    kind: z.literal('foundry'),
    model: ModelEndpoint.required({ server: true }),
    charter: Charter,
  }),
])
export type AgentConfig = z.infer<typeof AgentConfig>
