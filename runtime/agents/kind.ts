import type { AgentConfig, RequestedAgent } from '../../contracts/agents.ts'
import type { Credential } from '../../contracts/configure.ts'
import type { ModelRoute } from '../../contracts/egress.ts'
import type { AgentDeps, AgentSession } from './agent.ts'

export type KindName = Exclude<AgentConfig['kind'], 'none'>
/** The kinds that use a model. */
export type ModelKind = Exclude<KindName, 'scripted'>
export type ConfigOf<K extends KindName> = Extract<AgentConfig, { kind: K }>
type RequestOf<K extends KindName> = Extract<RequestedAgent, { kind: K }>

/** The operator's settings for models. A caller cannot choose them. */
export interface ModelSettings {
  readonly openaiBaseUrl?: string
  readonly openaiApiKey?: string
  /** What model servers may do by themselves, such as `web_search`. */
  readonly serverTools?: string[]
  /** Id of the credential that the egress proxy inserts as the key of the model server. @default `openaiApiKey` */
  readonly modelCredential?: string
  /** Base URL of the egress proxy for requests to models. Undefined if agents connect to their servers themselves. */
  readonly egressUrl?: string
  /** The authority of the egress proxy, if the proxy can insert the credentials of owners for their agents. In PEM. */
  readonly proxyRoot?: string
  /** Agents that connect to their servers themselves need a token for the proxy between them. @default false */
  readonly needsProxyToken?: boolean
  /** Base URL of the Azure AI resource for agents of kind `foundry`, which the egress proxy calls. */
  readonly foundryUrl?: string
  /** The kinds that callers can request. @default all */
  readonly kinds?: readonly KindName[]
  /** The models of a kind, beginning with its default. Without a list, a caller can name any model. */
  readonly names?: { readonly [K in ModelKind]?: readonly string[] }
  /** Whether each owner needs a key of the model server, and this one has set none. @default no owner needs one */
  readonly lacksModelKey?: (owner: string) => boolean
  readonly copilotToken?: string
  /** The GitHub token that an owner has set. It is used instead of `copilotToken`. */
  readonly gitHubTokenOf?: (owner: string) => OwnToken | undefined
  /** Whether owners set their tokens themselves, into the vault, and this one has set none. @default unknown */
  readonly lacksGitHubToken?: (owner: string) => boolean
  /** Name of an owner's token in the vault of user tokens; undefined if there is no vault. */
  readonly secretNameOf?: (owner: string) => string
}

/** A token that the owner of a run has set. */
export interface OwnToken {
  /** Absent if the token is in the vault of user tokens. */
  readonly token?: string
  /** Records the time of a use. */
  readonly onUse: () => void
}

export interface ResolvedAgent {
  readonly agent: AgentConfig
  readonly credential: Credential
  /** Called when the credential is sent to a sandbox, which is not so where a request is only admitted. */
  readonly onUse?: () => void
}

/** One kind of agent. Each kind is a folder with such a definition and one line in `registry.ts`. */
export interface AgentKind<K extends KindName> {
  /**
   * Runs in the API: adds the operator's endpoint and credential to a request. Throws `invalid_request` if one is missing.
   * Undefined for a kind that callers cannot request.
   */
  resolve?(request: RequestOf<K>, operator: ModelSettings & { readonly owner: string }): ResolvedAgent
  /** Runs in the API: the model server that the agent reaches through the egress proxy. Undefined for other kinds. */
  route?(request: RequestOf<K>, operator: ModelSettings): ModelRoute | undefined
  /** The agent connects to its servers itself, with the credential that AgentHost holds. */
  readonly connectsItself?: true
  /** The kind of credential that the egress proxy inserts into the agent's own connections, if the owner has set one. */
  readonly inserted?: 'github'
  /** A caller determines whether the agent reports an outcome, so runs do not require a report by default. */
  readonly isOutcomeOptional?: true
  /** Runs in AgentHost. Imports an SDK on demand, because it costs a standby AgentHost memory and open files. */
  create(config: ConfigOf<K>, deps: AgentDeps): Promise<AgentSession>
}
