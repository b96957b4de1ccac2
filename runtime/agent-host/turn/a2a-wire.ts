import {
  A2A_VERSION_HEADER,
  AgentCard,
  type Message,
  type Part,
  Role,
  SendMessageRequest,
  StreamResponse,
  Task,
  TaskState,
} from '@a2a-js/sdk'
import { RequestMalformedError, VersionNotSupportedError } from '@a2a-js/sdk/errors'
import { type HostEnvelope, RUN_EVENT_MEDIA_TYPE } from '../../../contracts/events.ts'
import { A2A, RESUMES_METADATA } from '../../../contracts/routes.ts'
import type { HostTurn, RequestedTurn } from './turns.ts'

const STATES = {
  working: TaskState.TASK_STATE_WORKING,
  completed: TaskState.TASK_STATE_COMPLETED,
  failed: TaskState.TASK_STATE_FAILED,
  cancelled: TaskState.TASK_STATE_CANCELED,
} as const

/** The turn that a `SendMessageRequest` asks for. Throws on parts that are not text. */
export function parseSendMessage(body: unknown): RequestedTurn {
  const { message, metadata } = SendMessageRequest.fromJSON(body)
  if (!message?.messageId)
    throw new RequestMalformedError('message.messageId is required: it is the id of the turn')
  const texts = message.parts.map(textOf)
  if (texts.length === 0) throw new RequestMalformedError('message.parts must contain at least one text part')
  const resumes = metadata?.[RESUMES_METADATA] ?? false
  if (typeof resumes !== 'boolean')
    throw new RequestMalformedError(`metadata["${RESUMES_METADATA}"] must be true or false`)
  return { id: message.messageId, prompt: texts.join('\n'), resumes }
}

function textOf(part: Part): string {
  if (part.content?.$case !== 'text') throw new RequestMalformedError('only text parts are supported')
  return part.content.value
}

/** Throws if the request does not use our version of the protocol. */
export function assertVersion(header: string | string[] | undefined): void {
  if (header === A2A.protocolVersion) return
  throw new VersionNotSupportedError(`send the header ${A2A_VERSION_HEADER}: ${A2A.protocolVersion}`)
}

export const taskOf = (turn: HostTurn, contextId: string): Task => ({
  id: turn.id,
  contextId,
  status: { state: STATES[turn.state], message: undefined, timestamp: undefined },
  artifacts: [],
  history: [],
  metadata: undefined,
})

export const taskToJson = (turn: HostTurn, contextId: string): unknown => Task.toJSON(taskOf(turn, contextId))

/** The first frame of a stream: the task's current state. */
export const snapshotToJson = (turn: HostTurn, contextId: string): unknown =>
  StreamResponse.toJSON({ payload: { $case: 'task', value: taskOf(turn, contextId) } })

/** An outbox event as an A2A status update with one data part of our media type. */
export function envelopeToJson(envelope: HostEnvelope, contextId: string): unknown {
  const { event } = envelope
  const taskId = envelope.taskId ?? ''
  const state = event.type === 'turn.ended' ? STATES[event.data.state] : TaskState.TASK_STATE_WORKING
  const part: Part = {
    content: { $case: 'data', value: envelope },
    mediaType: RUN_EVENT_MEDIA_TYPE,
    filename: '',
    metadata: undefined,
  }
  const message: Message = {
    messageId: `${taskId}.${envelope.sequence}`,
    contextId,
    taskId,
    role: Role.ROLE_AGENT,
    parts: [part],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
  }
  const status = { state, message, timestamp: envelope.at }
  return StreamResponse.toJSON({
    payload: { $case: 'statusUpdate', value: { taskId, contextId, status, metadata: undefined } },
  })
}

/** The agent card. Its URL is relative: only the run's caller can reach this sandbox, and it knows the address. */
export const agentCardToJson = (url: string): unknown =>
  AgentCard.toJSON(
    AgentCard.fromJSON({
      name: 'agentweaver-agent-host',
      description: 'One agent for one run, in its own sandbox.',
      version: '1',
      supportedInterfaces: [{ url, protocolBinding: 'HTTP+JSON', protocolVersion: A2A.protocolVersion }],
      capabilities: { streaming: true, pushNotifications: false },
      defaultInputModes: ['text/plain'],
      defaultOutputModes: ['text/plain', RUN_EVENT_MEDIA_TYPE],
      skills: [],
    }),
  )
