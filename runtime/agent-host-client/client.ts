import {
  type DecisionsReply,
  DecisionsReply as DecisionsReplySchema,
  type DecisionsRequest,
} from '../../contracts/decisions.ts'
import type { EgressGrant } from '../../contracts/egress-control.ts'
import type { HostEnvelope } from '../../contracts/events.ts'
import type { HostCommandInput } from '../../contracts/exec.ts'
import { type FileError, type FileOperation, FileResult } from '../../contracts/files.ts'
import { HostHealth } from '../../contracts/host-health.ts'
import { FILE_LIMITS } from '../../contracts/limits.ts'
import { AGENT_HOST_ROUTES, TAR_MEDIA_TYPE } from '../../contracts/routes.ts'
import type { FileAnswer } from '../../contracts/toolbox.ts'
import { MANIFEST_LIMITS } from '../../contracts/workspace-manifest.ts'
import { SandboxError } from '../kit/errors.ts'
import { type Configuration, configureAgentHost } from './configure.ts'
import {
  type AgentHostAddress,
  answerOf,
  bodyOf,
  connectAgentHost,
  faultOf,
  wholeBody,
} from './connection.ts'
import { followHostEvents } from './events.ts'
import { createRepositoryClient } from './repository.ts'
import { createTurnClient } from './turns.ts'

const json = { 'content-type': 'application/json' }
const NOTHING = new Uint8Array(0)

/** The API's side of one AgentHost: one per sandbox, with the run's bearer. */
export function createAgentHostClient(address: AgentHostAddress, bearer: string) {
  const connection = connectAgentHost(address, bearer)
  const { expectOk, request, repeatable } = connection
  const command = (id: string) => `${AGENT_HOST_ROUTES.commands}/${encodeURIComponent(id)}`

  async function put(path: string, body: object, signal: AbortSignal): Promise<void> {
    const init = { method: 'PUT', headers: json, body: JSON.stringify(body), signal }
    await wholeBody(await expectOk(path, init, repeatable))
  }

  return {
    configure: (configuration: Configuration): Promise<void> => configureAgentHost(connection, configuration),
    /** Returns the health that the sandbox reports in any state, including how it isolates commands. */
    async health(signal: AbortSignal): Promise<HostHealth> {
      return answerOf(await request(AGENT_HOST_ROUTES.healthz, { signal }), HostHealth)
    },
    turns: createTurnClient(connection),
    repository: createRepositoryClient(connection),
    events: (after: number, signal: AbortSignal): AsyncGenerator<HostEnvelope> =>
      followHostEvents(connection, after, signal),

    async decide(body: DecisionsRequest, signal: AbortSignal): Promise<DecisionsReply> {
      const init = { method: 'POST', headers: json, body: JSON.stringify(body), signal }
      return answerOf(await expectOk(AGENT_HOST_ROUTES.decisions, init, repeatable), DecisionsReplySchema)
    },

    startCommand: (id: string, body: HostCommandInput, signal: AbortSignal) => put(command(id), body, signal),
    async cancelCommand(id: string, signal: AbortSignal): Promise<void> {
      await wholeBody(await expectOk(command(id), { method: 'DELETE', signal }, repeatable))
    },

    /** Gives the sandbox its access to the egress proxy, or renews it. */
    giveEgress: (access: EgressGrant, signal: AbortSignal) => put(AGENT_HOST_ROUTES.egress, access, signal),

    /** Stops every command of the sandbox, or lets them continue. */
    freeze: (isFrozen: boolean, signal: AbortSignal) => put(AGENT_HOST_ROUTES.freeze, { isFrozen }, signal),

    async putWorkspace(archive: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<void> {
      const init = {
        method: 'PUT',
        headers: { 'content-type': TAR_MEDIA_TYPE },
        body: archive,
        duplex: 'half',
        signal,
      }
      await wholeBody(await expectOk(AGENT_HOST_ROUTES.workspace, init as Parameters<typeof expectOk>[1]))
    },
    async getWorkspace(signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
      return bodyOf(await expectOk(AGENT_HOST_ROUTES.workspace, { signal }))
    },
    /** The manifest of the workspace as JSON Lines. Fails with `not_found` if this AgentHost has no manifests. */
    async getManifest(signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
      return bodyOf(
        await expectOk(AGENT_HOST_ROUTES.manifest, { method: 'POST', signal }),
        MANIFEST_LIMITS.maxBytes,
      )
    },
    /** The contents of files in the last manifest, one after the other. They are not verified here. */
    async getPack(contents: readonly string[], signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
      const init = { method: 'POST', headers: json, body: JSON.stringify({ contents }), signal }
      return bodyOf(await expectOk(AGENT_HOST_ROUTES.pack, init))
    },
    async getSession(signal: AbortSignal): Promise<AsyncIterable<Uint8Array>> {
      return bodyOf(await expectOk(AGENT_HOST_ROUTES.session, { signal }))
    },

    /** Reads, writes, lists and deletes files. A rejection by the workspace engine is part of the response. */
    async file(operation: FileOperation, payload: Uint8Array, signal: AbortSignal): Promise<FileAnswer> {
      const refusal = refuseEscape(operation)
      if (refusal) return { result: refusal, payload: NOTHING }
      const { path, method } = fileRequest(operation)
      const response = await request(path, {
        method,
        signal,
        ...(operation.op === 'write' && {
          body: payload,
          headers: { 'content-type': 'application/octet-stream' },
        }),
      })
      if (response.headers.get('content-type')?.startsWith('application/octet-stream')) {
        const pieces = await Array.fromAsync(bodyOf(response, FILE_LIMITS.maxReadBytes))
        return { result: { ok: true }, payload: Buffer.concat(pieces) }
      }
      if (response.headers.get('content-type')?.startsWith('application/problem+json'))
        throw await faultOf(response)
      return { result: await answerOf(response, FileResult), payload: NOTHING }
    },

    close: connection.close,
  }
}

export type AgentHostClient = ReturnType<typeof createAgentHostClient>

/** `.` segments have no effect, and a URL parser would drop them too. */
const segmentsOf = (path: string) => path.split('/').filter((segment) => segment !== '.')

/**
 * A path with `..` must not reach the URL: it would be resolved there, and name another route of AgentHost, with
 * the bearer.
 */
function refuseEscape(operation: FileOperation): FileError | undefined {
  if (!('path' in operation) || !operation.path.split('/').includes('..')) return undefined
  return { ok: false, code: 'path_outside', message: `"${operation.path}" contains ".."` }
}

function fileRequest(operation: FileOperation): { path: string; method: 'GET' | 'PUT' | 'DELETE' } {
  const query = new URLSearchParams()
  const at = (path: string) =>
    `${AGENT_HOST_ROUTES.files}/${segmentsOf(path).map(encodeURIComponent).join('/')}`
  const withQuery = (path: string) => (query.size > 0 ? `${path}?${query}` : path)
  switch (operation.op) {
    case 'read':
      if (operation.offset !== undefined) query.set('offset', String(operation.offset))
      if (operation.length !== undefined) query.set('length', String(operation.length))
      return { path: withQuery(at(operation.path)), method: 'GET' }
    case 'write':
      query.set('create', operation.create)
      if (operation.mode !== undefined) query.set('mode', String(operation.mode))
      return { path: withQuery(at(operation.path)), method: 'PUT' }
    case 'delete':
      query.set('recursive', String(operation.recursive))
      return { path: withQuery(at(operation.path)), method: 'DELETE' }
    case 'list':
      query.set('dir', operation.path)
      query.set('limit', String(operation.limit))
      if (operation.after !== undefined) query.set('after', operation.after)
      return { path: withQuery(AGENT_HOST_ROUTES.files), method: 'GET' }
    default:
      throw new SandboxError('invalid_request', `AgentHost serves no file operation ${operation.op}`)
  }
}
