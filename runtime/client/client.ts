import type { z } from 'zod'
import {
  Approval,
  ApprovalPage,
  type ApproveShell,
  type ApproveTool,
  type CreateSandboxInput,
  type DenyShell,
  type DenyTool,
  EventPage,
  FileListing,
  FinishedCommand,
  type ForkRunInput,
  Readiness,
  Run,
  RunPage,
  type StartCommandInput,
  StartedCommand,
  type StartRunInput,
  type StartTurnInput,
  Turn,
} from '../../contracts/api.ts'
import type { RunEnvelope } from '../../contracts/events.ts'
import { ModelList } from '../../contracts/models.ts'
import { type PolicyScope, SandboxSettings, type SandboxSettingsPatch } from '../../contracts/policy.ts'
import {
  PolicyProposal,
  type ProposalScope,
  type ProposePolicyInput,
} from '../../contracts/policy-proposal.ts'
import { PushedResults, type PushResults } from '../../contracts/push.ts'
import { Restriction, RestrictionList, type SetRestriction } from '../../contracts/restrictions.ts'
import { BUNDLE_MEDIA_TYPE, PATCH_MEDIA_TYPE, RunDiff } from '../../contracts/results.ts'
import { API_ROUTES, TAR_MEDIA_TYPE } from '../../contracts/routes.ts'
import { type AllowEgress, AllowedEgress, RunEgress } from '../../contracts/run-egress.ts'
import {
  type FolderQuery,
  SettingsComparison,
  TrustedFolderPage,
  type TrustFolder,
} from '../../contracts/trusted-folders.ts'
import { commandEvents } from '../kit/command-events.ts'
import type { CallOptions, PageQuery, Parts } from './call-parts.ts'
import { type EventStreamOptions, followEvents } from './event-stream.ts'
import { toUrlPath } from './file-path.ts'
import { readLongAnswer } from './long-answer.ts'
import { parseAnswer } from './parse-answer.ts'
import { credentialCalls, keyCalls } from './people-calls.ts'
import { auditCalls, dataCalls, diagnosticCalls, emptyBody } from './record-calls.ts'
import { createTransport, type ServiceAddress, type TokenSource, type WireRequest } from './transport.ts'

export type ClientOptions = ServiceAddress & {
  /** An API key, or access tokens. */
  readonly apiKey: string | TokenSource
  /** @default a `fetch` without proxy for loopback addresses, otherwise `globalThis.fetch` */
  readonly fetch?: typeof fetch
  /** Retries after a failure that may be temporary. @default 3 */
  readonly retries?: number
}

type ShellApproval = Pick<ApproveShell, 'requestId' | 'commandHash'> & Partial<Pick<ApproveShell, 'scope'>>
type ToolApproval = Pick<ApproveTool, 'requestId'> & Partial<Pick<ApproveTool, 'scope'>>
type WriteFile = {
  readonly path: string
  readonly content: Uint8Array
  readonly create?: 'never' | 'allowed' | 'exclusive'
  /** Permission bits in octal, such as `755`. */
  readonly mode?: string
}

/** A typed client of the API. Responses are validated; an error response is thrown as `ProblemError`. */
export type Client = ReturnType<typeof createClient>

export function createClient(options: ClientOptions) {
  const transport = createTransport({ retries: 3, ...options })
  const call = async <T extends z.ZodType>(answer: T, request: WireRequest): Promise<z.output<T>> =>
    parseAnswer(answer, await transport.read(request))
  const command = async (request: WireRequest): Promise<void> => {
    await transport.read(request)
  }
  const parts = { transport, call, command }
  return {
    ...runCalls(parts),
    ...sandboxCalls(parts),
    ...commandCalls(parts),
    ...decisionCalls(parts),
    ...policyCalls(parts),
    ...restrictionCalls(parts),
    ...trustCalls(parts),
    ...auditCalls(parts),
    ...dataCalls(parts),
    ...diagnosticCalls(parts),
    ...keyCalls(parts),
    ...credentialCalls(parts),
  }
}

/** The longest that the service waits for the sandbox of a push, and for git in it. */
const PUSH_ANSWER_MS = 900_000

const runPath = (id: string, ...rest: string[]) =>
  [API_ROUTES.runs, ...[id, ...rest].map(encodeURIComponent)].join('/')
const sandboxPath = (id: string, ...rest: string[]) =>
  [API_ROUTES.sandboxes, ...[id, ...rest].map(encodeURIComponent)].join('/')

function runCalls({ transport, call }: Parts) {
  const stream = async (
    accept: string,
    request: CallOptions & { readonly path: string },
  ): Promise<AsyncIterable<Uint8Array>> => {
    const answer = await transport.open({ method: 'GET', headers: { accept }, ...request })
    return answer.body ?? emptyBody()
  }
  return {
    startRun: (run: StartRunInput, options?: CallOptions) =>
      call(Run, { method: 'POST', path: API_ROUTES.runs, json: run, ...options }),
    /** Starts a run with the conversation and the files of another run's last checkpoint. */
    forkRun: (id: string, fork: ForkRunInput, options?: CallOptions) =>
      call(Run, { method: 'POST', path: runPath(id, 'fork'), json: fork, ...options }),
    readRun: (id: string, options?: CallOptions) =>
      call(Run, { method: 'GET', path: runPath(id), ...options }),
    /** Newest first. */
    listRuns: (query: PageQuery = {}, options?: CallOptions) =>
      call(RunPage, { method: 'GET', path: API_ROUTES.runs, query, ...options }),
    /** Uploads the workspace of a run that was created with `upload`. The run starts when the upload is complete. */
    uploadWorkspace: (id: string, tar: AsyncIterable<Uint8Array>, options?: CallOptions) =>
      call(Run, {
        method: 'PUT',
        path: runPath(id, 'workspace'),
        content: { type: TAR_MEDIA_TYPE, bytes: tar },
        ...options,
      }),
    downloadWorkspace: (id: string, options?: CallOptions) =>
      stream(TAR_MEDIA_TYPE, { path: runPath(id, 'workspace'), ...options }),
    /** The changes of a run in its folder. */
    readDiff: (id: string, options?: CallOptions) =>
      call(RunDiff, { method: 'GET', path: runPath(id, 'diff'), ...options }),
    /** The changes as a unified diff with secrets redacted. */
    readPatch: (id: string, options?: CallOptions) =>
      stream(PATCH_MEDIA_TYPE, { path: runPath(id, 'diff', 'patch'), ...options }),
    /** The run's commits as a git bundle. */
    readBundle: (id: string, options?: CallOptions) =>
      stream(BUNDLE_MEDIA_TYPE, { path: runPath(id, 'bundle'), ...options }),
    /** Pushes the run's commits to a branch of the run. Waits for a sandbox and for git. */
    pushResults: (id: string, json: PushResults, options?: CallOptions) =>
      call(PushedResults, {
        method: 'POST',
        path: runPath(id, 'push'),
        json,
        limitMs: PUSH_ANSWER_MS,
        ...options,
      }),
    /** What the egress proxy refused to the run, and the hosts that the run reached. */
    readEgress: (id: string, options?: CallOptions) =>
      call(RunEgress, { method: 'GET', path: runPath(id, 'egress'), ...options }),
    /** Allows the run one host of the operator's egress list that its settings leave out. */
    allowEgress: (id: string, host: AllowEgress, options?: CallOptions) =>
      call(AllowedEgress, {
        method: 'POST',
        path: runPath(id, 'egress', 'allowed-hosts'),
        json: host,
        ...options,
      }),
    startTurn: (id: string, turn: StartTurnInput, options?: CallOptions) =>
      call(Turn, { method: 'POST', path: runPath(id, 'turns'), json: turn, ...options }),
    /** Returns when the run has ended, or after two seconds with its current state. */
    suspend: (id: string, options?: CallOptions) =>
      call(Run, { method: 'POST', path: runPath(id, 'suspend'), ...options }),
    resume: (id: string, options?: CallOptions) =>
      call(Run, { method: 'POST', path: runPath(id, 'resume'), ...options }),
    cancel: (id: string, options?: CallOptions) =>
      call(Run, { method: 'POST', path: runPath(id, 'cancel'), ...options }),
    readEvents: (id: string, query: { after?: number; limit?: number } = {}, options?: CallOptions) =>
      call(EventPage, { method: 'GET', path: runPath(id, 'events'), query, ...options }),
    /** Streams all events after a sequence until `done`. Reconnects without losing events. */
    streamEvents: (id: string, options?: EventStreamOptions): AsyncIterable<RunEnvelope> =>
      followEvents(transport, runPath(id, 'stream'), options),
  }
}

function sandboxCalls({ transport, call, command }: Parts) {
  const filesPath = (id: string) => (id.startsWith('run_') ? runPath(id, 'files') : sandboxPath(id, 'files'))
  const filePath = (id: string, path: string) => `${filesPath(id)}/${toUrlPath(path)}`
  return {
    createSandbox: (sandbox: CreateSandboxInput = {}, options?: CallOptions) =>
      call(Run, { method: 'POST', path: API_ROUTES.sandboxes, json: sandbox, ...options }),
    readSandbox: (id: string, options?: CallOptions) =>
      call(Run, { method: 'GET', path: sandboxPath(id), ...options }),
    listSandboxes: (query: PageQuery = {}, options?: CallOptions) =>
      call(RunPage, { method: 'GET', path: API_ROUTES.sandboxes, query, ...options }),
    destroySandbox: (id: string, options?: CallOptions) =>
      command({ method: 'DELETE', path: sandboxPath(id), ...options }),
    readFile: async (
      id: string,
      file: { path: string; offset?: number; length?: number },
      options?: CallOptions,
    ): Promise<Uint8Array> => {
      const { path, ...query } = file
      const headers = { accept: 'application/octet-stream' }
      const answer = await transport.open({
        method: 'GET',
        path: filePath(id, path),
        query,
        headers,
        ...options,
      })
      return answer.bytes()
    },
    writeFile: (id: string, { path, content, ...query }: WriteFile, options?: CallOptions) =>
      command({
        method: 'PUT',
        path: filePath(id, path),
        query,
        content: { type: 'application/octet-stream', bytes: content },
        ...options,
      }),
    deleteFile: (id: string, file: { path: string; recursive?: boolean }, options?: CallOptions) => {
      const { path, ...query } = file
      return command({ method: 'DELETE', path: filePath(id, path), query, ...options })
    },
    listFiles: (id: string, query: PageQuery & { dir?: string } = {}, options?: CallOptions) =>
      call(FileListing, { method: 'GET', path: filesPath(id), query, ...options }),
  }
}

function commandCalls({ transport, call, command }: Parts) {
  /** Starts a command. Its output is in the run's events. */
  const startCommand = (id: string, request: StartCommandInput, options?: CallOptions) => {
    const headers = { prefer: 'respond-async' }
    return call(StartedCommand, {
      method: 'POST',
      path: runPath(id, 'commands'),
      json: request,
      headers,
      ...options,
    })
  }
  return {
    startCommand,
    /** Starts a command once and streams its events until `command.exited`. Reconnects if the connection breaks. */
    async *runCommand(
      id: string,
      request: StartCommandInput,
      options?: CallOptions,
    ): AsyncGenerator<RunEnvelope> {
      const { commandId, afterSequence } = await startCommand(id, request, options)
      const from = { after: afterSequence, signal: options?.signal }
      yield* commandEvents(followEvents(transport, runPath(id, 'stream'), from), commandId)
    },
    /**
     * Runs a command once and returns its result with its output. Repeats the request if the connection breaks. If the
     * signal aborts, the command continues until its timeout.
     */
    execCommand: async (id: string, request: StartCommandInput, options?: CallOptions) =>
      parseAnswer(
        FinishedCommand,
        await readLongAnswer(transport, {
          method: 'POST',
          path: runPath(id, 'commands'),
          json: request,
          ...options,
        }),
      ),
    cancelCommand: (id: string, commandId: string, options?: CallOptions) =>
      command({ method: 'DELETE', path: runPath(id, 'commands', commandId), ...options }),
  }
}

function decisionCalls({ call, command }: Parts) {
  const decide = <Body>(route: string) => {
    return (id: string, json: Body, options?: CallOptions) =>
      call(Approval, { method: 'POST', path: runPath(id, route), json, ...options })
  }
  return {
    listApprovals: (id: string, options?: CallOptions) =>
      call(ApprovalPage, { method: 'GET', path: runPath(id, 'approvals'), ...options }),
    approveShell: decide<ShellApproval>('shell-approvals'),
    denyShell: decide<DenyShell>('shell-denials'),
    approveTool: decide<ToolApproval>('tool-approvals'),
    denyTool: decide<DenyTool>('tool-denials'),
    answerQuestion: (
      id: string,
      { requestId, answer }: { requestId: string; answer: string },
      options?: CallOptions,
    ) =>
      command({
        method: 'POST',
        path: runPath(id, 'questions', requestId, 'answer'),
        json: { answer },
        ...options,
      }),
  }
}

function policyCalls({ call }: Parts) {
  const path = API_ROUTES.sandboxPolicy
  return {
    /** The kinds of agents and the models that a run can use, and why others cannot start. */
    listModels: (options?: CallOptions) =>
      call(ModelList, { method: 'GET', path: API_ROUTES.models, ...options }),
    readPolicy: (query: PolicyScope = {}, options?: CallOptions) =>
      call(SandboxSettings, { method: 'GET', path, query, ...options }),
    /** Fields that the body omits are reset to their defaults. */
    replacePolicy: (json: SandboxSettingsPatch, query: PolicyScope = {}, options?: CallOptions) =>
      call(SandboxSettings, { method: 'PUT', path, json, query, ...options }),
    /** Fields that the body omits are unchanged. */
    mergePolicy: (json: SandboxSettingsPatch, query: PolicyScope = {}, options?: CallOptions) =>
      call(SandboxSettings, { method: 'PATCH', path, json, query, ...options }),
    /** A change of a repository's settings file. Nothing is changed. */
    proposePolicy: (json: ProposePolicyInput, query: ProposalScope = {}, options?: CallOptions) =>
      call(PolicyProposal, { method: 'POST', path: `${path}/proposal`, json, query, ...options }),
    /** Whether the service can start runs, and if not, why. */
    ready: (options?: CallOptions) =>
      call(Readiness, { method: 'GET', path: API_ROUTES.readyz, answers: [503], ...options }),
  }
}

function restrictionCalls({ call }: Parts) {
  const path = API_ROUTES.restrictions
  return {
    listRestrictions: (options?: CallOptions) => call(RestrictionList, { method: 'GET', path, ...options }),
    /** Restricts runs. The level `normal` lifts the restriction of the same scope. */
    setRestriction: (json: SetRestriction, options?: CallOptions) =>
      call(Restriction, { method: 'PUT', path, json, ...options }),
  }
}

function trustCalls({ call, command }: Parts) {
  const path = API_ROUTES.trustedFolders
  return {
    /** Compares a folder's settings file with the settings in force. */
    compareSettings: (query: FolderQuery, options?: CallOptions) =>
      call(SettingsComparison, { method: 'GET', path: `${path}/comparison`, query, ...options }),
    /** Makes the settings file with this digest the settings in force. */
    trustFolder: (json: TrustFolder, options?: CallOptions) =>
      call(SettingsComparison, { method: 'PUT', path, json, ...options }),
    forgetFolder: (query: FolderQuery, options?: CallOptions) =>
      command({ method: 'DELETE', path, query, ...options }),
    /** Most recently trusted first. */
    listTrustedFolders: (query: PageQuery = {}, options?: CallOptions) =>
      call(TrustedFolderPage, { method: 'GET', path, query, ...options }),
  }
}
